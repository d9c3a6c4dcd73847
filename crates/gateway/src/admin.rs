//! What may the operator see and do?
//!
//! `/admin` lists the workers as the router sees them, drains one and calls a drain off, and explains
//! where a request would go without sending it. It answers whoever presents the configured token,
//! or, where none is configured, whoever comes over the loopback interface.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use overdraft_core::fleet::{Health, WorkerId};
use overdraft_core::route::{Router, Tried};
use overdraft_http::{Body, Exchange, RequestBody, is_operator, reply};
use overdraft_wire::{ApiError, ErrorKind, RequestPeek};
use serde::Serialize;

use crate::cache::desk;
use crate::explain;
use crate::forward::{CHAT, COMPLETIONS, look};
use crate::keys::Caller;
use crate::settings::AdminSettings;
use crate::shared::Shared;
use crate::tokenizing;

/// Whether whoever sent this may see and do what operators may.
pub(crate) fn is_allowed(admin: &AdminSettings, exchange: &Exchange, head: &HeaderMap) -> bool {
    is_operator(admin.token.as_deref(), exchange, head)
}

/// What a path below `/admin/` leads to.
enum Place<'a> {
    Workers,
    Drain(&'a str),
    Rejoin(&'a str),
    Explain,
    Cache,
    Purge,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Option<Self> {
        match path.strip_prefix("/admin/")? {
            "workers" => Some(Self::Workers),
            "explain" => Some(Self::Explain),
            "cache" => Some(Self::Cache),
            "cache/purge" => Some(Self::Purge),
            path => {
                let path = path.strip_prefix("workers/")?;
                path.strip_suffix("/drain")
                    .map(Self::Drain)
                    .or_else(|| path.strip_suffix("/rejoin").map(Self::Rejoin))
            }
        }
    }

    const fn method(&self) -> &'static [Method] {
        match self {
            Self::Workers | Self::Cache => &[Method::GET],
            _ => &[Method::POST],
        }
    }
}

/// Answers a request below `/admin/`.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    (head, body): (&Parts, RequestBody),
    unescaped: fn(&str) -> String,
) -> Response<Body> {
    if !is_allowed(&shared.settings().admin, exchange, &head.headers) {
        let why = "`/admin` is for operators; expected the token of `admin.token` as `authorization: \
                   Bearer …`, or, where none is configured, a request over the loopback interface";
        return reply::error(&ApiError::new(ErrorKind::PermissionDenied, why.to_owned()));
    }
    let path = head.uri.path();
    let Some(place) = Place::of(path) else { return reply::not_found(&head.method, path) };
    if !place.method().contains(&head.method) {
        return reply::method_not_allowed(&head.method, path, place.method());
    }
    match place {
        Place::Workers => reply::json(StatusCode::OK, workers(shared)),
        Place::Cache => desk::standing(shared),
        Place::Purge => {
            desk::purge(shared, body).await.unwrap_or_else(|error| reply::error(&error))
        }
        Place::Drain(name) => move_worker(shared, &unescaped(name), Router::drain),
        Place::Rejoin(name) => move_worker(shared, &unescaped(name), Router::rejoin),
        Place::Explain => explained(shared, exchange, head, body)
            .await
            .unwrap_or_else(|error| reply::error(&error)),
    }
}

async fn explained(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    head: &Parts,
    body: RequestBody,
) -> Result<Response<Body>, ApiError> {
    let body = shared.intake.read(body).await?;
    let is_chat = RequestPeek::parse(&body)?.messages.is_some();
    let path = if is_chat { CHAT } else { COMPLETIONS };
    let operator = Caller::operator();
    let (mut print, _) = look(shared, exchange, (&operator, head), (&body, path))?;
    tokenizing::count(shared, &mut print, &body, path).await;
    let routes = shared.routes();
    let settings = routes.route(&print.model);
    let mut router = shared.router();
    router.explain(print.request(), settings, &Tried::default(), shared.clock.now());
    let words = explain::text(&router, &shared.roster, &print);
    drop(router);
    Ok(reply::json(StatusCode::OK, words))
}

fn move_worker(shared: &Shared, name: &str, act: fn(&mut Router, WorkerId)) -> Response<Body> {
    let Some(id) = find(shared, name) else {
        let known = names(shared).join("`, `");
        let why = format!("`{name}` is not a worker; known workers: `{known}`");
        return reply::error(&ApiError::new(ErrorKind::NotFound, why));
    };
    act(&mut shared.router(), id);
    let listed = listed(shared).into_iter().find(|one| one.name == name);
    if let Some(listed) = &listed {
        tracing::info!(worker = name, draining = listed.draining, "worker told by an operator");
    }
    let text = serde_json::to_vec(&listed).expect("a worker has string keys");
    reply::json(StatusCode::OK, text)
}

/// The worker of that name.
pub(crate) fn find(shared: &Shared, name: &str) -> Option<WorkerId> {
    let router = shared.router();
    let mut ids = router.fleet().workers().map(|(id, _)| id);
    ids.find(|&id| shared.upstream(id).name() == name)
}

fn names(shared: &Shared) -> Vec<String> {
    listed(shared).into_iter().map(|one| one.name).collect()
}

/// One worker as the list tells it.
#[derive(Serialize)]
struct Listed {
    name: String,
    url: String,
    pool: &'static str,
    health: &'static str,
    /// Whether it is out for failing its requests.
    breaker: &'static str,
    breaker_streak: u8,
    draining: bool,
    models: Vec<String>,
    requests: u32,
    requests_foreign: u32,
    tokens_inflight: u64,
    tokens_queued: u64,
    kv_used_tokens: Option<u64>,
    kv_capacity_tokens: Option<u32>,
    load_age_us: Option<u64>,
    prefill_tokens_per_second: Option<u64>,
    prefix_knowledge: &'static str,
    prefix_tokens_known: u64,
    /// How it is asked to score drafts.
    scoring: &'static str,
}

fn workers(shared: &Shared) -> Vec<u8> {
    #[derive(Serialize)]
    struct List {
        workers: Vec<Listed>,
        sources: Vec<Source>,
        store: Shares,
    }
    #[derive(Serialize)]
    struct Shares {
        place: String,
        degraded: bool,
        gateways: u64,
    }
    #[derive(Serialize)]
    struct Source {
        name: String,
        for_seconds: u64,
        error: Option<String>,
    }
    let told = |(name, since, error): (String, Duration, Option<String>)| Source {
        name,
        for_seconds: since.as_secs(),
        error,
    };
    let sources = shared.sources.standings().into_iter().map(told).collect();
    let store = Shares {
        place: shared.settings().store.place.to_string(),
        degraded: shared.store.is_degraded(),
        gateways: shared.store.gateways(),
    };
    let list = List { workers: listed(shared), sources, store };
    serde_json::to_vec(&list).expect("a list has string keys")
}

fn listed(shared: &Shared) -> Vec<Listed> {
    let now = shared.clock.now();
    let router = shared.router();
    let fleet_pace = router.fleet().prefill_rate().pace();
    let one = |(id, worker): (WorkerId, &overdraft_core::fleet::Worker)| {
        let member = shared.roster.member(id);
        let pace = worker.prefill_rate().pace_within(fleet_pace);
        Listed {
            name: member.upstream.name().to_owned(),
            url: member.settings.url.clone(),
            pool: member.settings.pool.name(),
            health: health(worker.health()),
            breaker: worker.breaker().state().name(),
            breaker_streak: worker.breaker().streak(),
            draining: worker.is_draining(),
            models: worker.models().to_vec(),
            requests: worker.requests(),
            requests_foreign: worker.requests_all() - worker.requests(),
            tokens_inflight: worker.tokens(),
            tokens_queued: worker.queued(pace, now),
            kv_used_tokens: worker.kv_used(),
            kv_capacity_tokens: worker.kv_capacity().map(overdraft_units::Tokens::get),
            load_age_us: worker.staleness(now).map(overdraft_units::Micros::get),
            prefill_tokens_per_second: worker.prefill_rate().tokens_per_second(),
            prefix_knowledge: explain::knowledge(router.prefixes().knowledge(id)),
            prefix_tokens_known: router.prefix_tokens(id),
            scoring: member.abilities().path(None, now).name(),
        }
    };
    router.fleet().workers().map(one).collect()
}

const fn health(health: Health) -> &'static str {
    match health {
        Health::Unproven => "unproven",
        Health::Up { .. } => "up",
        Health::Failing { cause, .. } => cause.name(),
    }
}
