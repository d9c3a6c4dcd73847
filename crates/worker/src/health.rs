//! Health and load endpoints of a worker: readiness, requests in flight and version.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use overdraft_http::{Body, Exchange, reply};
use overdraft_telemetry::metrics::Exposition;
use overdraft_wire::ApiError;
use overdraft_wire::kv_events::write_sources;
use serde_json::json;

use crate::kv_events::KvEvents;
use crate::speculation;
use crate::worker::Worker;

/// What is running: the same for every worker of this release.
const VERSION: &str =
    concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\",\"server\":\"overdraft\"}");

/// 200 with the model and how guessing ahead fares: `mean_acceptance` is what
/// `vllm_spec_acceptance_rate` tells, null where nothing was drafted of late. 503 with the reason.
pub(crate) fn health(worker: &Worker, exchange: &Exchange) -> Response<Body> {
    let fault = fault(worker, exchange).map(ApiError::overloaded);
    let mut told = json!({
        "status": if fault.is_some() { "unhealthy" } else { "healthy" },
        "model": worker.name(),
        "mean_acceptance": speculation::acceptance(worker),
    });
    if worker.engine.stats().speculation.enabled {
        told["speculation"] = speculation::told(worker);
    }
    let Some(error) = fault else {
        return reply::json(StatusCode::OK, told.to_string());
    };
    if let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(&error.to_json()) {
        members.into_iter().for_each(|(name, value)| told[name] = value);
    }
    let mut response = reply::error(&error);
    *response.body_mut() = Body::full(told.to_string());
    response
}

fn fault(worker: &Worker, exchange: &Exchange) -> Option<String> {
    if exchange.drain.begun() {
        return Some("the worker is shutting down".to_owned());
    }
    match worker.warm.get() {
        None => Some("the model is being warmed up".to_owned()),
        Some(Err(reason)) => Some(format!("the model failed its warm-up: {reason}")),
        Some(Ok(())) if worker.engine.health().is_serving() => None,
        Some(Ok(())) => Some(format!("the engine fails: {:?}", worker.engine.health())),
    }
}

/// Requests being computed or waiting.
pub(crate) fn load(worker: &Worker) -> Response<Body> {
    let load = json!({ "server_load": worker.load.count() });
    reply::json(StatusCode::OK, load.to_string())
}

/// What is running.
pub(crate) fn version() -> Response<Body> {
    reply::json(StatusCode::OK, VERSION)
}

/// Where the events of the cache come from; an empty list where none are published.
pub(crate) fn kv_event_sources(worker: &Worker) -> Response<Body> {
    let source = worker.kv_events.as_ref().map(KvEvents::source);
    reply::json(StatusCode::OK, write_sources(source.map_or(&[], std::slice::from_ref)))
}

/// Everything that is counted.
pub(crate) fn metrics(worker: &Worker, headers: &HeaderMap) -> Response<Body> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let exposition = Exposition::for_accept(accept);
    let text = worker.metrics.expose(&worker.engine.stats(), exposition, worker.clock.now());
    reply::document(HeaderValue::from_static(exposition.content_type()), text)
}
