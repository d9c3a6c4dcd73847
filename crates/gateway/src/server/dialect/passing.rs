//! Passing: requests of a dialect that go to a worker which speaks it, as they came.
//!
//! A model says so in its settings. What needs the gateway is translated all the same:
//!
//! | request                                                                 | why                                    |
//! |-------------------------------------------------------------------------|----------------------------------------|
//! | Responses without `"store": false`, in the background, or after another | the gateway keeps them, not the worker |
//! | one that holds a seal of ours                                           | no worker can open it                  |
//! | Messages of a tenant, where any worker is told salts                    | the dialect has no field for a salt    |
//! | Messages with a `thread`, which is refused                              | no worker keeps what it stands for     |
//! | Messages with `max_tokens` 0                                            | engines refuse it                      |
//!
//! **Invariant:** a request that passes shares a worker's cache with nobody whom its translation would not share it with.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use memchr::memmem;
use overdraft_http::Body;
use overdraft_wire::dialect::Dialect;
use overdraft_wire::json::Object;
use tokio::time::timeout;

use super::super::Gateway;
use super::super::held::waiting;
use super::asking::Asking;
use super::seal::SEALED;
use super::stream::Pacing;
use crate::pipeline::keys::Caller;
use crate::pipeline::passed::Passed;
use crate::pipeline::relay::ErrorShape;
use crate::settings::{GatewaySettings, SaltPolicy};

/// Whether a request goes on as it came.
pub(super) fn passes(gateway: &Gateway, caller: &Caller, dialect: Dialect, body: &[u8]) -> bool {
    let (settings, routes) = (gateway.pipeline.settings(), gateway.pipeline.routes());
    if !routes.passes_any(dialect) {
        return false;
    }
    let Ok(object) = Object::parse(body) else { return false };
    let named: Option<String> =
        object.raw("model").and_then(|raw| serde_json::from_str(raw).ok()).flatten();
    let Some(named) = named.or_else(|| settings.model_default.clone()) else { return false };
    let model = routes.model_behind(&named).unwrap_or(&named);
    routes.passes(model, dialect)
        && memmem::find(body, SEALED.as_bytes()).is_none()
        && match dialect {
            Dialect::Messages => {
                let is_for_gateway = names_thread(&object) || wants_no_answer(&object);
                !is_for_gateway && (caller.is_nobody() || !tells_salts(&settings))
            }
            Dialect::Responses => !needs_memory(&object),
        }
}

/// Whether the gateway must keep something for it.
fn needs_memory(object: &Object<'_>) -> bool {
    let is = |name: &str, value: &str| object.raw(name).is_some_and(|raw| raw == value);
    let follows = object.raw("previous_response_id").is_some_and(|raw| raw != "null");
    !is("store", "false") || is("background", "true") || follows
}

/// Whether a conversation that the vendor keeps is to go on: an engine would answer the new turns as if they were all.
fn names_thread(object: &Object<'_>) -> bool {
    object.raw("thread").is_some_and(|raw| raw != "null")
}

/// Whether it asks for the prompt to be cached alone.
fn wants_no_answer(object: &Object<'_>) -> bool {
    object.raw("max_tokens") == Some("0")
}

/// Whether any worker, there or still to be found, is told the salts of tenants.
fn tells_salts(settings: &GatewaySettings) -> bool {
    let named = settings.workers.iter().map(|worker| worker.traits.cache_salt);
    let found = settings.discovery.iter().map(|source| source.each().traits.cache_salt);
    named.chain(found).any(|policy| policy == SaltPolicy::Told)
}

/// Answers a request that passes; `chat` is its translation, where it has one.
pub(super) async fn create(
    asking: Asking,
    body: Bytes,
    dialect: Dialect,
    chat: Option<Vec<u8>>,
) -> Response<Body> {
    let gateway = Arc::clone(&asking.gateway);
    let shape = ErrorShape::Dialect(dialect, asking.incoming.exchange.id.as_str().into());
    let streams = Object::parse(&body).is_ok_and(|object| object.raw("stream") == Some("true"));
    let passed = Passed { dialect, chat: chat.map(Bytes::from) };
    let mut question = asking.pass(body, passed);
    if !streams {
        return question.await;
    }
    let ping = Pacing::of(&gateway.pipeline.settings()).ping;
    match timeout(ping, &mut question).await {
        Ok(response) => response,
        // Clients hang up on silence, and a worker that has not begun makes none.
        Err(_elapsed) => waiting(question, ping, shape),
    }
}
