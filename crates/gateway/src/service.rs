//! Which path leads where?

use std::sync::{Arc, PoisonError};

use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use overdraft_http::{Body, Exchange, RequestBody, Service, reply};
use overdraft_telemetry::Audience;
use overdraft_telemetry::metrics::Exposition;
use overdraft_wire::ApiError;

use crate::admin;
use crate::cascade;
use crate::forward::{forward, unknown_model};
use crate::gauges;
use crate::shared::Shared;
use crate::tally::Tally;

/// What a path leads to.
enum Place<'a> {
    /// A worker's endpoint of the same path.
    Worker(&'static str),
    Models,
    Model(&'a str),
    Health,
    Alive,
    Metrics,
    Admin,
    Index,
    Nowhere,
}

impl<'a> Place<'a> {
    fn of(path: &'a str) -> Self {
        match path {
            "/v1/chat/completions" => Self::Worker("/v1/chat/completions"),
            "/v1/completions" => Self::Worker("/v1/completions"),
            "/v1/embeddings" => Self::Worker("/v1/embeddings"),
            "/tokenize" => Self::Worker("/tokenize"),
            "/detokenize" => Self::Worker("/detokenize"),
            "/v1/models" => Self::Models,
            "/healthz" | "/health" => Self::Health,
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
            Self::Worker(path) => path,
            Self::Models => "/v1/models",
            Self::Model(_) => "/v1/models/{id}",
            Self::Health => "/healthz",
            Self::Alive => "/livez",
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
pub(crate) struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

impl Service for Gateway {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let place = Place::of(head.uri.path());
        let mut tally = Tally::new(&self.shared, &exchange.access, place.route(), exchange.begun);
        if let Place::Worker(path) = place
            && head.method == Method::POST
        {
            return forward(&self.shared, &exchange, tally, (&head, body), path).await;
        }
        let response = match place {
            // In a box, for every request carries room for the largest of these along.
            Place::Admin => {
                Box::pin(admin::answer(&self.shared, &exchange, (&head, body), unescaped)).await
            }
            Place::Models | Place::Model(_) => self.models(&place, &head),
            _ => self.own(&place, &exchange, &head),
        };
        tally.answered(response.status());
        response
    }
}

impl Gateway {
    /// What the gateway answers itself.
    fn own(&self, place: &Place<'_>, exchange: &Exchange, head: &Parts) -> Response<Body> {
        if matches!(place, Place::Nowhere) {
            return reply::not_found(&head.method, head.uri.path());
        }
        if !place.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), place.allowed());
        }
        if matches!(place, Place::Health | Place::Alive | Place::Metrics) {
            // Machines ask these all the time.
            exchange.access.note(|record| record.audience = Audience::Debugger);
        }
        match place {
            Place::Health => self.health(exchange),
            Place::Alive => reply::json(StatusCode::OK, &br#"{"status":"alive"}"#[..]),
            Place::Metrics => self.metrics(head),
            _ => reply::text(StatusCode::OK, INDEX),
        }
    }

    /// The models that whoever asks may ask for, or one of them.
    fn models(&self, place: &Place<'_>, head: &Parts) -> Response<Body> {
        if !place.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), place.allowed());
        }
        let shared = &self.shared;
        let caller = match shared.keyring().identify(&head.headers) {
            Ok(caller) => caller,
            Err(error) => return reply::error(&error),
        };
        let routes = shared.routes();
        let Place::Model(id) = place else {
            let list = if caller.is_restricted() {
                shared.catalogue.list_of(|id| caller.may_ask(&routes, id))
            } else {
                shared.catalogue.list()
            };
            return reply::json(StatusCode::OK, list);
        };
        let id = unescaped(id);
        let card = shared.catalogue.card(&id).filter(|_| caller.may_ask(&routes, &id));
        match card {
            Some(card) => reply::json(StatusCode::OK, card),
            None => reply::error(&unknown_model(shared, &caller, &id)),
        }
    }

    /// Whether it makes sense to send requests here.
    fn health(&self, exchange: &Exchange) -> Response<Body> {
        if exchange.drain.begun() {
            return reply::error(&ApiError::overloaded("the gateway is shutting down"));
        }
        let (up, all) = {
            let router = self.shared.router();
            let fleet = router.fleet();
            let up = fleet.workers().filter(|(_, worker)| worker.health().is_up()).count();
            (up, fleet.workers().count())
        };
        if up == 0 {
            let why = format!("none of {all} workers is up");
            return reply::error(&ApiError::overloaded(why));
        }
        let store = match self.shared.settings().store.place {
            overdraft_store::Place::Memory | overdraft_store::Place::Wrong(_) => "memory",
            overdraft_store::Place::Redis(_) if self.shared.store.is_degraded() => "degraded",
            overdraft_store::Place::Redis(_) => "ok",
        };
        let mut text =
            format!(r#"{{"status":"ok","workers_up":{up},"workers":{all},"store":"{store}""#);
        let off = cascade::switched_off(&self.shared);
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
        let _alone = self.shared.reading.lock().unwrap_or_else(PoisonError::into_inner);
        gauges::set(&self.shared);
        let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let exposition = Exposition::for_accept(accept);
        let content_type = HeaderValue::from_static(exposition.content_type());
        reply::document(content_type, self.shared.metrics.encode(exposition))
    }
}

const INDEX: &str = concat!(
    "Overdraft ",
    env!("CARGO_PKG_VERSION"),
    ": an OpenAI-compatible gateway.\n\n\
     POST /v1/chat/completions   chat, streamed with \"stream\": true\n\
     POST /v1/completions        plain completions\n\
     POST /v1/embeddings         embeddings, if a worker serves them\n\
     POST /tokenize              text to token ids\n\
     POST /detokenize            token ids to text\n\
     GET  /v1/models             the models that can be asked for\n\
     GET  /v1/models/{id}        one of them\n\
     GET  /healthz, /health      200 once a worker is up\n\
     GET  /livez                 200 while the process runs\n\
     GET  /metrics               Prometheus metrics\n\
     GET  /admin/workers         the workers as the router sees them\n\
     POST /admin/workers/{name}/drain     sends it nothing new; .../rejoin calls that off\n\
     POST /admin/explain         where a request would go, and why\n\
     GET  /admin/cache           what the response cache holds and does\n\
     POST /admin/cache/purge     lets go of answers, by `tenant`, `model`, both or neither\n",
);

/// Resolves `%2F` and its kin; what is no escape stays as it is.
fn unescaped(text: &str) -> String {
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
