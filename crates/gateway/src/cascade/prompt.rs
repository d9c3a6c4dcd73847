//! Prompt tokens of the target.
//!
//! They come from the gateway's own tokenizer for the model, where it has one; else from a worker
//! of the target. They must be the target's own tokens, because the target scores and continues by
//! them.

use bytes::Bytes;
use overdraft_core::route::Strictness;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_wire::{Endpoint, Object};

use super::call::{Call, CallContext};
use super::rewrite;
use crate::pipeline::prompt_tokens;
use crate::pipeline::request_info::{RequestInfo, Work};

/// The tokens of the prompt of `body`, which names the target.
pub(super) async fn of_target(
    calls: &CallContext,
    info: &RequestInfo,
    body: &Bytes,
    endpoint: Endpoint,
) -> Option<Vec<u32>> {
    let object = Object::parse(body).ok()?;
    if let Some(ids) = object.raw("prompt").and_then(|raw| serde_json::from_str(raw).ok()) {
        // It came in tokens.
        return Some(ids);
    }
    if let Some(tokens) =
        prompt_tokens::tokens(&calls.layer.pipeline, &info.model, body, endpoint).await
    {
        return Some(tokens.into_iter().map(|token| token.0).collect());
    }
    let body = rewrite::tokens(&object, &info.model);
    tokens(calls, info, body).await
}

/// What a worker of `info`'s model makes of the text in `body`.
pub(super) async fn tokens(
    calls: &CallContext,
    info: &RequestInfo,
    body: Bytes,
) -> Option<Vec<u32>> {
    let mut info = info.clone();
    (info.limit, info.work, info.delivery) = (Some(0), Work::Chore, Delivery::Whole);
    let call = Call { info, path: Endpoint::Tokenize.path(), body };
    let lease = calls.place(&call, &Tried::default(), Strictness::Waived).ok()?;
    let answer = calls.whole(lease, &call).await.ok()?;
    rewrite::read_tokens(&answer)
}
