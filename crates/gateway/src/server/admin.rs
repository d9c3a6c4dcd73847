//! Admin endpoints: what the operator may see and do.
//!
//! `/admin` lists the workers as the router sees them, drains one and calls a drain off, and
//! explains where a request would go without sending it. It answers requests with the configured
//! token, or, where none is configured, requests over the loopback interface.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use overdraft_core::fleet::{Health, WorkerId};
use overdraft_core::route::Choice;
use overdraft_http::{Body, Exchange, RequestBody, reply};
use overdraft_wire::{ApiError, Endpoint, ErrorKind, RequestPeek};
use serde::Serialize;

use super::audit::{audited, turned_away};
use super::percent::unescaped;
use super::views::{View, ViewRoute};
use super::{Gateway, views};
use crate::cache::admin::{self as cache_admin, Purge};
use crate::cascade::{self, Preview};
use crate::dispatch::{Dispatcher, explain};
use crate::pipeline::context::RequestContext;
use crate::pipeline::inspect::inspect;
use crate::pipeline::keys::Caller;
use crate::pipeline::{explanation, prompt_tokens};

/// What a path below `/admin/` leads to.
enum AdminRoute<'a> {
    Workers,
    Drain(&'a str),
    Rejoin(&'a str),
    Explain,
    Cache,
    Purge,
    View(ViewRoute),
}

impl<'a> AdminRoute<'a> {
    fn of(path: &'a str) -> Option<Self> {
        match path.strip_prefix("/admin/")? {
            "workers" => Some(Self::Workers),
            "explain" => Some(Self::Explain),
            "cache" => Some(Self::Cache),
            "cache/purge" => Some(Self::Purge),
            path if View::of_path(path).is_some() => View::of_path(path).map(Self::View),
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
            Self::Workers | Self::Cache | Self::View(_) => &[Method::GET],
            _ => &[Method::POST],
        }
    }
}

/// Answers a request below `/admin/`.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    exchange: &Exchange,
    head: &Parts,
    body: RequestBody,
) -> Response<Body> {
    if !explanation::is_allowed(&gateway.settings.settings().admin, exchange, &head.headers) {
        let why = "`/admin` is for operators; expected the token of `admin.token` as `authorization: \
                   Bearer …`, or, where none is configured, a request over the loopback interface";
        turned_away(gateway, exchange, head, "no operator", 403).await;
        return reply::error(&ApiError::new(ErrorKind::PermissionDenied, why.to_owned()));
    }
    let path = head.uri.path();
    let Some(place) = AdminRoute::of(path) else { return reply::not_found(&head.method, path) };
    if !place.method().contains(&head.method) {
        return reply::method_not_allowed(&head.method, path, place.method());
    }
    let has_token = gateway.settings.settings().admin.token.is_some();
    if matches!(place, AdminRoute::View(_)) && views::is_foreign(has_token, &head.headers) {
        let why = "views are for pages of this gateway, called by its address or as `localhost` where \
                   no `admin.token` is configured";
        turned_away(gateway, exchange, head, "foreign page", 403).await;
        return reply::error(&ApiError::new(ErrorKind::PermissionDenied, why.to_owned()));
    }
    match place {
        AdminRoute::Workers => reply::json(StatusCode::OK, workers(gateway)),
        AdminRoute::View(view) => views::answer(gateway, exchange, head.uri.query(), view),
        AdminRoute::Cache => cache_admin::standing(&gateway.cache),
        AdminRoute::Purge => purge(gateway, exchange, head, body).await,
        AdminRoute::Drain(name) => {
            let name = unescaped(name);
            let act = async { move_worker(gateway, &name, Dispatcher::drain) };
            audited(gateway, exchange, head, "drain", &name, act).await
        }
        AdminRoute::Rejoin(name) => {
            let name = unescaped(name);
            let act = async { move_worker(gateway, &name, Dispatcher::rejoin) };
            audited(gateway, exchange, head, "rejoin", &name, act).await
        }
        AdminRoute::Explain => explained(gateway, exchange, head, body)
            .await
            .unwrap_or_else(|error| reply::error(&error)),
    }
}

async fn purge(
    gateway: &Arc<Gateway>,
    exchange: &Exchange,
    head: &Parts,
    body: RequestBody,
) -> Response<Body> {
    let purge = Purge::read(&gateway.cache, body).await;
    let subject = purge.as_ref().map_or_else(|_| "unreadable".to_owned(), Purge::to_string);
    let act = async {
        let purged = match &purge {
            Ok(purge) => cache_admin::purge(&gateway.cache, purge).await,
            Err(error) => Err(error.clone()),
        };
        purged.unwrap_or_else(|error| reply::error(&error))
    };
    audited(gateway, exchange, head, "purge", &subject, act).await
}

async fn explained(
    gateway: &Arc<Gateway>,
    exchange: &Exchange,
    head: &Parts,
    body: RequestBody,
) -> Result<Response<Body>, ApiError> {
    let pipeline = &gateway.pipeline;
    let body = pipeline.buffers.read(body).await?;
    let is_chat = RequestPeek::parse(&body)?.messages.is_some();
    let endpoint = if is_chat { Endpoint::ChatCompletions } else { Endpoint::Completions };
    let context = RequestContext::new(exchange, head, endpoint);
    let (mut info, content) = inspect(pipeline, &context, &Caller::operator(), &body)?;
    let plan = cascade::consider(&gateway.cascade, &context, &body, &info)?;
    if let Some(plan) = plan {
        let previewed = cascade::preview(&gateway.cascade, &plan, &info, &content.body);
        if let Some(Preview { cascade, info }) = Box::pin(previewed).await {
            let (choice, words) = gateway.dispatcher.explain(info.request(), Some(&cascade));
            // Where the draft cannot be asked, the target is.
            if matches!(choice, Choice::Send(_)) {
                return Ok(reply::json(StatusCode::OK, words));
            }
        }
    }
    prompt_tokens::count(pipeline, &mut info, &body, endpoint).await;
    let (_, words) = gateway.dispatcher.explain(info.request(), None);
    Ok(reply::json(StatusCode::OK, words))
}

fn move_worker(gateway: &Gateway, name: &str, act: fn(&Dispatcher, WorkerId)) -> Response<Body> {
    let Some(id) = find(gateway, name) else {
        let known = names(gateway).join("`, `");
        let why = format!("`{name}` is not a worker; known workers: `{known}`");
        return reply::error(&ApiError::new(ErrorKind::NotFound, why));
    };
    act(&gateway.dispatcher, id);
    let listed = listed(gateway).into_iter().find(|one| one.name == name);
    let text = serde_json::to_vec(&listed).expect("a worker has string keys");
    reply::json(StatusCode::OK, text)
}

/// The worker of that name.
fn find(gateway: &Gateway, name: &str) -> Option<WorkerId> {
    let router = gateway.dispatcher.view();
    let mut ids = router.fleet().workers().map(|(id, _)| id);
    ids.find(|&id| gateway.dispatcher.upstream(id).name() == name)
}

fn names(gateway: &Gateway) -> Vec<String> {
    listed(gateway).into_iter().map(|one| one.name).collect()
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
    /// Sequences that it computes at once, where that is configured or has been learnt.
    max_num_seqs: Option<u32>,
    kv_used_tokens: Option<u64>,
    kv_capacity_tokens: Option<u32>,
    load_age_us: Option<u64>,
    prefill_tokens_per_second: Option<u64>,
    prefix_knowledge: &'static str,
    prefix_tokens_known: u64,
    /// How it is asked to score drafts.
    scoring: &'static str,
}

fn workers(gateway: &Gateway) -> Vec<u8> {
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
    let sources = gateway.fleet.sources.standings().into_iter().map(told).collect();
    let store = Shares {
        place: gateway.settings.settings().store.place.to_string(),
        degraded: gateway.store.is_degraded(),
        gateways: gateway.store.gateways(),
    };
    let list = List { workers: listed(gateway), sources, store };
    serde_json::to_vec(&list).expect("a list has string keys")
}

fn listed(gateway: &Gateway) -> Vec<Listed> {
    let now = gateway.dispatcher.clock.now();
    let router = gateway.dispatcher.view();
    let fleet_pace = router.fleet().prefill_rate().pace();
    let one = |(id, worker): (WorkerId, &overdraft_core::fleet::Worker)| {
        let member = gateway.dispatcher.member(id);
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
            max_num_seqs: worker.seats().count(),
            kv_used_tokens: worker.kv_used(),
            kv_capacity_tokens: worker.kv_capacity().map(overdraft_units::Tokens::get),
            load_age_us: worker.staleness(now).map(overdraft_units::Micros::get),
            prefill_tokens_per_second: worker.prefill_rate().tokens_per_second(),
            prefix_knowledge: explain::knowledge(router.prefixes(), id),
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
