//! Routes: which path leads where, and what the gateway answers itself.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use overdraft_http::{Body, Exchange, RequestBody, Service, reply};
use overdraft_telemetry::Audience;
use overdraft_telemetry::metrics::Exposition;
use overdraft_wire::{ApiError, Endpoint};

use super::dialect::{self, DialectRoute, Incoming};
use super::forward::{Intake, forward};
use super::{Gateway, admin, gauges};
use crate::cascade;
use crate::pipeline::context::RequestContext;
use crate::pipeline::inspect::unknown_model;
use crate::pipeline::request_guard::RequestGuard;

/// What a path leads to.
enum Route<'a> {
    /// A worker's endpoint.
    Worker(Endpoint),
    /// An endpoint that is translated to a worker's.
    Dialect(DialectRoute),
    Models,
    Model(&'a str),
    Health,
    Alive,
    Version,
    Metrics,
    Admin,
    Index,
    Nowhere,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Self {
        if let Some(endpoint) = Endpoint::of_path(path) {
            return Self::Worker(endpoint);
        }
        if let Some(route) = DialectRoute::of(path) {
            return Self::Dialect(route);
        }
        match path {
            "/v1/models" => Self::Models,
            "/healthz" | "/health" | "/ping" => Self::Health,
            "/version" => Self::Version,
            "/livez" => Self::Alive,
            "/metrics" => Self::Metrics,
            "/" => Self::Index,
            path if path.starts_with("/admin/") => Self::Admin,
            _ => match path.strip_prefix("/v1/models/") {
                Some(id) if !id.is_empty() => Self::Model(id),
                _ => Self::Nowhere,
            },
        }
    }

    /// What metrics call it: never what a client wrote.
    const fn route(&self) -> &'static str {
        match self {
            Self::Worker(endpoint) => endpoint.path(),
            Self::Dialect(route) => route.path(),
            Self::Models => "/v1/models",
            Self::Model(_) => "/v1/models/{id}",
            Self::Health => "/healthz",
            Self::Alive => "/livez",
            Self::Version => "/version",
            Self::Metrics => "/metrics",
            Self::Admin => "/admin",
            Self::Index => "/",
            Self::Nowhere => "unknown",
        }
    }

    const fn allowed(&self) -> &'static [Method] {
        match self {
            Self::Worker(_) => &[Method::POST],
            _ => &[Method::GET, Method::HEAD],
        }
    }
}

/// The gateway as the listener sees it.
#[derive(Debug)]
pub(crate) struct GatewayService(pub(crate) Arc<Gateway>);

impl Service for GatewayService {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        let Self(gateway) = self;
        let (head, body) = request.into_parts();
        let path = plain_path(head.uri.path());
        let route = Route::of(&path);
        let mut guard = RequestGuard::new(&gateway.pipeline, route.route(), exchange.begun);
        if let Route::Worker(endpoint) = route
            && head.method == Method::POST
        {
            let context = RequestContext::new(&exchange, &head, endpoint).guarded_by(guard);
            return forward(gateway, context, Intake::Sent(body)).await;
        }
        if let Route::Dialect(route) = route {
            drop(path);
            let incoming = Incoming { exchange, head, guard };
            // In a box, as the admin's endpoints are.
            return Box::pin(dialect::answer(gateway, route, incoming, body)).await;
        }
        let response = match route {
            // In a box, for every request carries room for the largest of these along.
            Route::Admin => Box::pin(admin::answer(gateway, &exchange, &head, body)).await,
            Route::Models | Route::Model(_) => gateway.models(&route, &head),
            _ => gateway.own(&route, &exchange, &head),
        };
        guard.answered(response.status());
        response
    }
}

impl Gateway {
    /// What the gateway answers itself.
    fn own(&self, route: &Route<'_>, exchange: &Exchange, head: &Parts) -> Response<Body> {
        if matches!(route, Route::Nowhere) {
            return reply::not_found(&head.method, head.uri.path());
        }
        if !route.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), route.allowed());
        }
        if matches!(route, Route::Health | Route::Alive | Route::Metrics) {
            // Machines ask these all the time.
            exchange.access.note(|record| record.audience = Audience::Debugger);
        }
        match route {
            Route::Health => self.health(exchange),
            Route::Alive => reply::json(StatusCode::OK, &br#"{"status":"alive"}"#[..]),
            Route::Version => reply::json(StatusCode::OK, VERSION),
            Route::Metrics => self.metrics(head),
            _ => reply::text(StatusCode::OK, index()),
        }
    }

    /// The models that whoever asks may ask for, or one of them.
    fn models(&self, route: &Route<'_>, head: &Parts) -> Response<Body> {
        if !route.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), route.allowed());
        }
        let (pipeline, models) = (&self.pipeline, &self.fleet.models);
        let caller = match pipeline.keyring().identify(&head.headers) {
            Ok(caller) => caller,
            Err(error) => return reply::error(&error),
        };
        let routes = pipeline.routes();
        let is_anthropic = head.headers.contains_key(dialect::models::VERSION);
        let Route::Model(id) = route else {
            let list = if caller.is_restricted() {
                models.list_of(|id| caller.may_ask(&routes, id))
            } else {
                models.list()
            };
            let list = if is_anthropic { dialect::models::list(list) } else { list };
            return reply::json(StatusCode::OK, list);
        };
        let id = unescaped(id);
        let card = models.card(&id).filter(|_| caller.may_ask(&routes, &id));
        match card {
            Some(card) if is_anthropic => reply::json(StatusCode::OK, dialect::models::card(card)),
            Some(card) => reply::json(StatusCode::OK, card),
            None => reply::error(&unknown_model(pipeline, &caller, &id)),
        }
    }

    /// Whether it makes sense to send requests here.
    fn health(&self, exchange: &Exchange) -> Response<Body> {
        if exchange.drain.begun() {
            return reply::error(&ApiError::overloaded("the gateway is shutting down"));
        }
        let (up, all) = {
            let router = self.dispatcher.view();
            let fleet = router.fleet();
            let up = fleet.workers().filter(|(_, worker)| worker.health().is_up()).count();
            (up, fleet.workers().count())
        };
        if up == 0 {
            let why = format!("none of {all} workers is up");
            return reply::error(&ApiError::overloaded(why));
        }
        let store = match self.settings.settings().store.place {
            overdraft_store::Place::Memory | overdraft_store::Place::Wrong(_) => "memory",
            overdraft_store::Place::Redis(_) if self.store.is_degraded() => "degraded",
            overdraft_store::Place::Redis(_) => "ok",
        };
        let mut text =
            format!(r#"{{"status":"ok","workers_up":{up},"workers":{all},"store":"{store}""#);
        let off = cascade::switched_off(&self.cascade);
        if !off.is_empty() {
            let off: serde_json::Map<String, serde_json::Value> =
                off.into_iter().map(|(name, why)| (name, why.into())).collect();
            text.push_str(r#","cascades_off":"#);
            text.push_str(&serde_json::Value::Object(off).to_string());
        }
        text.push('}');
        reply::json(StatusCode::OK, text)
    }

    fn metrics(&self, head: &Parts) -> Response<Body> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        gauges::set(self);
        let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let exposition = Exposition::for_accept(accept);
        let content_type = HeaderValue::from_static(exposition.content_type());
        reply::document(content_type, self.pipeline.requests.encode(exposition))
    }
}

/// What load tools that know vLLM ask first.
const VERSION: &str =
    concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\",\"server\":\"overdraft\"}");

/// A path without the slashes that clients of a base URL with a slash at its end double, and without one at
/// its own end.
fn plain_path(path: &str) -> Cow<'_, str> {
    let is_plain = !path.contains("//") && (path == "/" || !path.ends_with('/'));
    if is_plain {
        return Cow::Borrowed(path);
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Cow::Owned(format!("/{}", parts.join("/")))
}

/// What is listed at `/` beside the workers' endpoints.
const INDEX: &str = "\
POST /v1/messages           chat in Anthropic's dialect; /count_tokens counts a prompt
POST /v1/responses          chat in the dialect of OpenAI's Responses
GET  /v1/responses/{id}     one that is kept; DELETE, .../input_items, POST .../cancel
GET  /v1/models             the models that can be asked for
GET  /v1/models/{id}        one of them
GET  /healthz, /health      200 once a worker is up; /ping too
GET  /version               of this gateway
GET  /livez                 200 while the process runs
GET  /metrics               Prometheus metrics
GET  /admin/workers         the workers as the router sees them
POST /admin/workers/{name}/drain     sends it nothing new; .../rejoin calls that off
POST /admin/explain         where a request would go, and why
GET  /admin/cache           what the response cache holds and does
POST /admin/cache/purge     lets go of answers, by `tenant`, `model`, both or neither
";

/// What is at `/`.
fn index() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("Overdraft {version}: an OpenAI-compatible gateway.\n\n");
    for endpoint in Endpoint::ALL {
        let (path, summary) = (endpoint.path(), endpoint.summary());
        writeln!(text, "POST {path:<22} {summary}").expect("a string takes all of it");
    }
    text.push_str(INDEX);
    text
}

/// Resolves `%2F` and its kin; what is no escape stays as it is.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = (byte == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
