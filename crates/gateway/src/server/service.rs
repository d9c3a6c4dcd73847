//! Routes: which path leads where, and what the gateway answers itself.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use overdraft_http::{Body, Exchange, RequestBody, Service, is_host_trusted, presents, reply};
use overdraft_telemetry::Audience;
use overdraft_telemetry::metrics::Exposition;
use overdraft_units::Instant;
use overdraft_wire::{ApiError, Endpoint, ErrorKind};

use super::compression::Compression;
use super::cors::Sharing;
use super::dialect::{self, DialectRoute, Incoming};
use super::forward::{Intake, forward};
use super::percent::{plain_path, unescaped};
use super::{Gateway, admin, audit, gauges, held, views};
use crate::pipeline::context::RequestContext;
use crate::pipeline::inspect::unknown_model;
use crate::pipeline::request_guard::RequestGuard;
use crate::settings::GatewaySettings;

/// Milliseconds from the head of a request to the head of its answer.
const PROCESSING_MS: HeaderName = HeaderName::from_static("openai-processing-ms");

/// What a path leads to.
enum Route<'a> {
    /// A worker's endpoint.
    Worker(Endpoint),
    /// An endpoint that is translated to a worker's.
    Dialect(DialectRoute),
    Models,
    Model(&'a str),
    Health,
    Ready,
    Alive,
    Version,
    Metrics,
    Admin,
    Dashboard,
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
            "/readyz" => Self::Ready,
            "/metrics" => Self::Metrics,
            "/" => Self::Index,
            path if path.starts_with("/admin/") => Self::Admin,
            path if path == "/dashboard" || path.starts_with("/dashboard/") => Self::Dashboard,
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
            Self::Ready => "/readyz",
            Self::Version => "/version",
            Self::Metrics => "/metrics",
            Self::Admin => "/admin",
            Self::Dashboard => "/dashboard",
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

    /// Whether it leads anywhere at a listener with that face.
    const fn is_at(&self, face: Face) -> bool {
        match face {
            Face::Both => true,
            Face::Clients => !matches!(self, Self::Metrics | Self::Admin | Self::Dashboard),
            Face::Operators => {
                !matches!(self, Self::Worker(_) | Self::Dialect(_) | Self::Models | Self::Model(_))
            }
        }
    }

    /// Whether a page of a browser may be allowed to ask: operators' pages are their own.
    const fn is_for_pages(&self) -> bool {
        !matches!(self, Self::Metrics | Self::Admin | Self::Dashboard)
    }

    /// Whether clients of Anthropic's dialect ask it beside their own paths, or look there for what is not served.
    const fn may_be_of_anthropic(&self) -> bool {
        matches!(self, Self::Models | Self::Model(_) | Self::Nowhere)
    }

    /// Whether machines ask it every few seconds to learn how this process is.
    const fn is_probe(&self) -> bool {
        matches!(self, Self::Health | Self::Ready | Self::Alive)
    }
}

/// Whom a listener is for, and so what is found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    /// Clients and operators: there is no other listener.
    Both,
    /// Clients, who find neither `/metrics` nor `/admin`.
    Clients,
    /// Operators, probes and scrapers, who find no models.
    Operators,
}

/// The gateway as a listener sees it.
#[derive(Debug)]
pub(crate) struct GatewayService {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) face: Face,
}

impl Service for GatewayService {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let settings = self.gateway.settings.settings();
        let compression = Compression::of(settings.compression, &head);
        let sharing = self.sharing(&settings, &head);
        drop(settings);
        if sharing.is_none() && compression.is_none() {
            return self.answer(exchange, head, body).await;
        }
        let preflight = sharing.as_ref().and_then(|sharing| sharing.preflight(&head));
        let mut response = match preflight {
            Some(response) => self.allowed(&exchange, &head, response),
            // In a box, or every request would have room for it twice.
            None => Box::pin(self.answer(exchange, head, body)).await,
        };
        if let Some(compression) = compression {
            response = compression.apply(response);
        }
        if let Some(sharing) = sharing {
            sharing.tell(response.headers_mut());
        }
        response
    }

    fn sign_refusal(&self, request: &Parts, head: &mut HeaderMap) {
        if let Some(sharing) = self.sharing(&self.gateway.settings.settings(), request) {
            sharing.tell(head);
        }
    }
}

impl GatewayService {
    /// With which pages an answer is shared, where any may be.
    fn sharing(&self, settings: &GatewaySettings, head: &Parts) -> Option<Sharing> {
        let sharing = Sharing::of(&settings.cors, &head.headers)?;
        let is_shared = Route::of(&plain_path(head.uri.path())).is_for_pages();
        (self.face != Face::Operators && is_shared).then_some(sharing)
    }

    /// Counts the answer to a browser that asks whether a page may ask.
    fn allowed(
        &self,
        exchange: &Exchange,
        head: &Parts,
        response: Response<Body>,
    ) -> Response<Body> {
        let path = plain_path(head.uri.path());
        let route = Route::of(&path).route();
        let mut guard = RequestGuard::new(&self.gateway.pipeline, route, exchange.begun);
        guard.answered(response.status());
        response
    }

    /// Answers a request by what its path leads to.
    async fn answer(&self, exchange: Exchange, head: Parts, body: RequestBody) -> Response<Body> {
        let Self { gateway, face } = self;
        let begun = exchange.begun;
        let path = plain_path(head.uri.path());
        let route = Some(Route::of(&path)).filter(|route| route.is_at(*face));
        let route = route.unwrap_or(Route::Nowhere);
        let mut guard = RequestGuard::new(&gateway.pipeline, route.route(), exchange.begun);
        if let Route::Worker(endpoint) = route
            && head.method == Method::POST
        {
            let admission = gateway.settings.settings().admission;
            if !admission.hold.is_zero() && !admission.keep_alive.is_zero() {
                drop(path);
                let incoming = held::Incoming { exchange, head, endpoint, guard, body };
                let answer = held::forward_held(gateway, incoming, admission.keep_alive);
                return self.timed(begun, Box::pin(answer).await);
            }
            let context = RequestContext::new(&exchange, &head, endpoint).guarded_by(guard);
            let response = forward(gateway, context, Intake::Sent(body)).await;
            return self.timed(begun, response);
        }
        if let Route::Dialect(route) = route {
            drop(path);
            let incoming = Incoming { exchange, head, guard };
            // In a box, as the admin's endpoints are.
            let response = Box::pin(dialect::answer(gateway, route, incoming, body)).await;
            return self.timed(begun, response);
        }
        let is_of_anthropic =
            route.may_be_of_anthropic() && head.headers.contains_key(dialect::models::VERSION);
        let mut response = match route {
            ref route if self.is_misnamed(route, &head) => {
                if matches!(route, Route::Admin) {
                    let why = "foreign host";
                    Box::pin(audit::turned_away(gateway, &exchange, &head, why, 403)).await;
                }
                reply::error(&misnamed())
            }
            // In a box, for every request carries room for the largest of these along.
            Route::Admin => Box::pin(admin::answer(gateway, &exchange, &head, body)).await,
            Route::Dashboard if gateway.settings.settings().dashboard.is_on => views::page(&head),
            Route::Dashboard => reply::not_found(&head.method, head.uri.path()),
            Route::Models | Route::Model(_) => gateway.models(&route, &head).await,
            _ => gateway.own(*face, &route, &exchange, &head),
        };
        if is_of_anthropic {
            let id = exchange.id.as_str();
            response = Box::pin(dialect::signed_for_anthropic(response, id)).await;
        }
        guard.answered(response.status());
        response
    }

    /// Tells how long the request took up to the head of its answer, as `OpenAI` does.
    fn timed(&self, begun: Instant, mut response: Response<Body>) -> Response<Body> {
        let took = self.gateway.dispatcher.clock.now().since(begun);
        // A worker that is a provider itself tells its own.
        let millis = || HeaderValue::from(took.get() / 1_000);
        response.headers_mut().entry(PROCESSING_MS).or_insert_with(millis);
        response
    }

    /// Whether the listener for operators is asked under a name that a web page may have made point
    /// here. Whoever has the token is no such page, and a probe learns nothing.
    fn is_misnamed(&self, route: &Route<'_>, head: &Parts) -> bool {
        if self.face != Face::Operators || route.is_probe() {
            return false;
        }
        let settings = self.gateway.settings.settings();
        let admin = &settings.admin;
        let has_token = admin.token.as_deref().is_some_and(|token| presents(token, &head.headers));
        !has_token && !is_host_trusted(&admin.hosts, &head.headers)
    }
}

fn misnamed() -> ApiError {
    let why = "the `host` of the request is not a name of this listener; expected an address, \
               `localhost`, or one of `admin.hosts`";
    ApiError::new(ErrorKind::PermissionDenied, why.to_owned())
}

impl Gateway {
    /// What the gateway answers itself.
    fn own(
        &self,
        face: Face,
        route: &Route<'_>,
        exchange: &Exchange,
        head: &Parts,
    ) -> Response<Body> {
        if matches!(route, Route::Nowhere) {
            return reply::not_found(&head.method, head.uri.path());
        }
        if !route.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), route.allowed());
        }
        if route.is_probe() || matches!(route, Route::Metrics) {
            // Machines ask these all the time.
            exchange.access.note(|record| record.audience = Audience::Debugger);
        }
        match route {
            Route::Health => self.health(),
            Route::Ready => self.readiness(),
            Route::Alive => reply::json(StatusCode::OK, &br#"{"status":"alive"}"#[..]),
            Route::Version => reply::json(StatusCode::OK, VERSION),
            Route::Metrics => self.metrics(head),
            _ => reply::text(StatusCode::OK, index(face)),
        }
    }

    /// The models that the caller may ask for, or one of them.
    async fn models(&self, route: &Route<'_>, head: &Parts) -> Response<Body> {
        if !route.allowed().contains(&head.method) {
            return reply::method_not_allowed(&head.method, head.uri.path(), route.allowed());
        }
        let (pipeline, models) = (&self.pipeline, &self.fleet.models);
        let caller = match pipeline.identify(&head.headers).await {
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
        // A pattern of aliases stands for names that are not listed.
        let behind = || models.card_as(routes.model_behind(&id)?, &id);
        let card = models.card(&id).or_else(behind).filter(|_| caller.may_ask(&routes, &id));
        match card {
            Some(card) if is_anthropic => reply::json(StatusCode::OK, dialect::models::card(card)),
            Some(card) => reply::json(StatusCode::OK, card),
            None => reply::error(&unknown_model(pipeline, &caller, &id)),
        }
    }

    fn metrics(&self, head: &Parts) -> Response<Body> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        gauges::set(self);
        let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let exposition = Exposition::for_accept(accept);
        let content_type = HeaderValue::from_static(exposition.content_type());
        // Counted before, so that the page has at least these.
        let cut = self.pipeline.requests.cut();
        let page = self.pipeline.requests.encode(exposition);
        self.scrapes.note(cut);
        reply::document(content_type, page)
    }
}

/// What load tools that know vLLM ask first.
const VERSION: &str =
    concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "\",\"server\":\"overdraft\"}");

/// What is listed at `/` for clients, beside the workers' endpoints.
const FOR_CLIENTS: &str = "\
POST /v1/messages           chat in Anthropic's dialect; /count_tokens counts a prompt
POST /v1/responses          chat in the dialect of OpenAI's Responses; /input_tokens counts a prompt
POST /v1/responses/compact  a conversation made shorter, with a summary for what was said
GET  /v1/responses/{id}     one that is kept; DELETE, .../input_items, POST .../cancel
GET  /v1/models             the models that can be asked for
GET  /v1/models/{id}        one of them
";

/// What is listed for everybody.
const FOR_ALL: &str = "\
GET  /healthz, /health      200 once a worker is up; /ping too
GET  /readyz                200 while requests should be sent to this gateway
GET  /livez                 200 while the process runs
GET  /version               of this gateway
";

/// What is listed for operators.
const FOR_OPERATORS: &str = "\
GET  /metrics               Prometheus metrics
GET  /dashboard             the operator's page
GET  /admin/workers         the workers as the router sees them
GET  /admin/views/{name}    now, history, fleet, requests, queue, cache, cascade, speculation, cost
GET  /admin/views/requests/{id}      one of the last requests with its decisions
GET  /admin/events/{name}   a view once a second, as server-sent events
POST /admin/workers/{name}/drain     sends it nothing new; .../rejoin calls that off
POST /admin/explain         where a request would go, and why
GET  /admin/cache           what the response cache holds and does
POST /admin/cache/purge     lets go of answers, by `tenant`, `model`, both or neither
";

/// What is at `/` of a listener.
fn index(face: Face) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("Overdraft {version}: an OpenAI-compatible gateway.\n\n");
    if face != Face::Operators {
        for endpoint in Endpoint::ALL {
            let (path, summary) = (endpoint.path(), endpoint.summary());
            writeln!(text, "POST {path:<27} {summary}").expect("a string takes all of it");
        }
        text.push_str(FOR_CLIENTS);
    }
    text.push_str(FOR_ALL);
    if face != Face::Clients {
        text.push_str(FOR_OPERATORS);
    }
    text
}

#[cfg(test)]
mod tests {
    use overdraft_http::Limits;

    use super::*;

    #[test]
    fn every_probe_is_answered_where_there_is_room_for_nothing_else() {
        for path in ["/healthz", "/health", "/ping", "/livez", "/readyz"] {
            assert!(Route::of(path).is_probe(), "{path}");
            // A full gateway that called itself not ready would send its clients to the next, until all are full.
            assert!(Limits::default().vital.contains(&path), "{path}");
        }
    }
}
