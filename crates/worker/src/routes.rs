//! Route table of the worker.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use overdraft_http::{Body, Exchange, RequestBody, Service, read_body, reply};
use overdraft_telemetry::Audience;
use overdraft_wire::ApiError;
use overdraft_wire::Generation;
use overdraft_wire::kv_blocks::BLOCKS_PATH;

use crate::kv_share::offer;
use crate::worker::Worker;
use crate::{generate, health, models, speculation, tokenize};

/// What stands behind a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint<'a> {
    Chat,
    Completions,
    Models,
    Model(&'a str),
    Tokenize,
    Detokenize,
    TokenizerSource,
    Health,
    Ping,
    Version,
    Load,
    Metrics,
    KvEventSources,
    KvBlocks,
    Speculation,
}

impl<'a> Endpoint<'a> {
    fn at(path: &'a str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/completions" => Self::Completions,
            "/v1/models" => Self::Models,
            "/tokenize" => Self::Tokenize,
            "/detokenize" => Self::Detokenize,
            "/tokenizer_source" => Self::TokenizerSource,
            "/health" => Self::Health,
            "/ping" => Self::Ping,
            "/version" => Self::Version,
            "/load" => Self::Load,
            "/metrics" => Self::Metrics,
            "/kv_event_sources" => Self::KvEventSources,
            BLOCKS_PATH => Self::KvBlocks,
            "/admin/speculation" => Self::Speculation,
            _ => Self::Model(path.strip_prefix("/v1/models/").filter(|name| !name.is_empty())?),
        })
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Chat | Self::Completions | Self::Tokenize | Self::Detokenize => &[Method::POST],
            Self::Ping | Self::Speculation | Self::KvBlocks => {
                &[Method::GET, Method::HEAD, Method::POST]
            }
            _ => &[Method::GET, Method::HEAD],
        }
    }
}

impl Endpoint<'_> {
    /// Whether machines ask it all the time.
    fn is_probe(self) -> bool {
        matches!(
            self,
            Self::Health
                | Self::Ping
                | Self::Load
                | Self::Metrics
                | Self::Models
                | Self::KvEventSources
                | Self::TokenizerSource
        )
    }
}

/// The worker as a listener's service.
pub(crate) struct Routes(pub(crate) Arc<Worker>);

impl Service for Routes {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        exchange.access.note(|record| record.writer = self.0.access_writer);
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let Some(endpoint) = Endpoint::at(path) else {
            return reply::not_found(&head.method, path);
        };
        if !endpoint.methods().contains(&head.method) {
            return reply::method_not_allowed(&head.method, path, endpoint.methods());
        }
        if endpoint.is_probe() {
            exchange.access.note(|record| record.audience = Audience::Debugger);
        }
        let answer = match endpoint {
            Endpoint::Chat => self.generate(&exchange, &head, body, Generation::Chat).await,
            Endpoint::Completions => {
                self.generate(&exchange, &head, body, Generation::Completion).await
            }
            Endpoint::Tokenize => self.prepared(body, tokenize::tokenize).await,
            Endpoint::Detokenize => self.prepared(body, tokenize::detokenize).await,
            Endpoint::TokenizerSource => Ok(tokenize::source(&self.0)),
            Endpoint::Models => Ok(models::list(&self.0)),
            Endpoint::Model(name) => models::one(&self.0, name),
            Endpoint::Health | Endpoint::Ping => Ok(health::health(&self.0, &exchange)),
            Endpoint::Version => Ok(health::version()),
            Endpoint::Load => Ok(health::load(&self.0)),
            Endpoint::KvEventSources => Ok(health::kv_event_sources(&self.0)),
            Endpoint::KvBlocks if head.method == Method::POST => {
                offer::blocks(&self.0, &head.headers, body).await
            }
            Endpoint::KvBlocks => offer::describe(&self.0, &head.headers),
            Endpoint::Speculation if head.method == Method::POST => {
                match speculation::check(&self.0, &exchange, &head.headers) {
                    Ok(()) => self.prepared(body, speculation::set).await,
                    Err(error) => Err(error),
                }
            }
            Endpoint::Speculation => Ok(speculation::state(&self.0)),
            Endpoint::Metrics => Ok(health::metrics(&self.0, &head.headers)),
        };
        answer.unwrap_or_else(|error| reply::error(&error))
    }
}

impl Routes {
    async fn generate(
        &self,
        exchange: &Exchange,
        head: &Parts,
        body: RequestBody,
        generation: Generation,
    ) -> Result<Response<Body>, ApiError> {
        let body = read_body(body).await?;
        let source = self.0.kv_share.as_ref().and_then(|share| share.source(&head.headers));
        generate::answer(&self.0, exchange, source, body, generation).await
    }

    /// An answer that is a function of the body.
    async fn prepared(
        &self,
        body: RequestBody,
        work: fn(&Worker, &[u8]) -> Result<Vec<u8>, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let body = read_body(body).await?;
        let worker = Arc::clone(&self.0);
        let answer = self.0.parse_pool.prepare(body, move |body| work(&worker, body)).await?;
        Ok(reply::json(StatusCode::OK, answer))
    }
}
