//! Supervisor HTTP API: health, metrics and restart of the supervised engine.
//!
//! It says whether the command runs and how often it was restarted, and restarts it. A restart
//! needs the token, or, where there is none, a request over loopback that is not forwarded.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use overdraft_http::{Body, Exchange, RequestBody, Service, reply};
use overdraft_telemetry::Audience;
use overdraft_wire::{ApiError, ErrorKind};
use tokio::sync::{mpsc, oneshot};

use super::Order;
use super::advice::Advice;
use super::child::State;

const METRICS_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// Headers that mark a forwarded request.
const SPEAKS_FOR_OTHERS: [&str; 4] = ["forwarded", "origin", "via", "x-forwarded-for"];

/// The API, and what it tells and orders.
#[derive(Debug)]
pub(super) struct HttpApi {
    pub(super) token: Option<String>,
    pub(super) state: Arc<State>,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) advice: Advice,
}

impl Service for HttpApi {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        let (head, _body) = request.into_parts();
        let path = head.uri.path();
        let allowed = match path {
            "/restart" => Method::POST,
            "/healthz" | "/metrics" | "/advice" | "/" => Method::GET,
            _ => return reply::not_found(&head.method, path),
        };
        if head.method != allowed {
            return reply::method_not_allowed(&head.method, path, &[allowed]);
        }
        match path {
            "/restart" if self.is_allowed(&exchange, &head.headers) => self.restart().await,
            "/restart" => {
                let why = "restarting is for operators; expected `authorization: Bearer …` with \
                           the supervisor's token, or, where it has none, a request over the \
                           loopback interface";
                reply::error(&ApiError::new(ErrorKind::PermissionDenied, why.to_owned()))
            }
            "/" => reply::text(StatusCode::OK, INDEX),
            "/advice" => reply::json(StatusCode::OK, self.advice.to_json()),
            _ => {
                exchange.access.note(|record| record.audience = Audience::Debugger);
                if path == "/metrics" { self.metrics() } else { self.health() }
            }
        }
    }
}

impl HttpApi {
    fn is_allowed(&self, exchange: &Exchange, head: &HeaderMap) -> bool {
        let Some(token) = &self.token else {
            let direct = SPEAKS_FOR_OTHERS.iter().all(|name| !head.contains_key(*name));
            return direct && exchange.peer.ip().to_canonical().is_loopback();
        };
        let presented = head.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let presented = presented.and_then(|value| value.strip_prefix(b"Bearer "));
        presented.is_some_and(|presented| is_same(presented, token.as_bytes()))
    }

    /// Answers when the old process has ended and the new one has begun.
    async fn restart(&self) -> Response<Body> {
        let (order, done) = oneshot::channel();
        if self.orders.try_send(order).is_err() {
            let why = "a restart is under way already; wait for it, and ask again if need be";
            return reply::error(&ApiError::overloaded(why));
        }
        match done.await {
            Ok(pid) => {
                let text = format!(r#"{{"status":"restarted","pid":{pid}}}"#);
                reply::json(StatusCode::OK, text)
            }
            Err(_gone) => reply::error(&ApiError::overloaded("the supervisor is shutting down")),
        }
    }

    fn health(&self) -> Response<Body> {
        match self.state.pid() {
            Some(pid) => {
                let text = format!(r#"{{"status":"running","pid":{pid}}}"#);
                reply::json(StatusCode::OK, text)
            }
            None => reply::error(&ApiError::overloaded("the command does not run")),
        }
    }

    fn metrics(&self) -> Response<Body> {
        let [died, ordered] = self.state.restarts();
        let up = u8::from(self.state.pid().is_some());
        let page = format!(
            "# HELP overdraft_supervise_restarts_total Starts of the command after the first.\n\
             # TYPE overdraft_supervise_restarts_total counter\n\
             overdraft_supervise_restarts_total{{cause=\"death\"}} {died}\n\
             overdraft_supervise_restarts_total{{cause=\"order\"}} {ordered}\n\
             # HELP overdraft_supervise_up Whether the command runs.\n\
             # TYPE overdraft_supervise_up gauge\n\
             overdraft_supervise_up {up}\n"
        );
        reply::document(METRICS_TYPE, page)
    }
}

/// Compares in a time that does not tell how much agrees.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    differs == 0 && one.len() == other.len()
}

const INDEX: &str = "\
Overdraft supervise: runs an engine and restarts it.

POST /restart    ends the command and starts it again; answers when the new one has begun
GET  /healthz    200 while the command runs
GET  /metrics    how often it was started again
GET  /advice     what the engine's environment and flags are likely to cost
";
