//! Which tokens is a prompt to the target?
//!
//! The gateway's own tokenizer for the model says, where it has one; else a worker of the target is asked.
//! Nothing else than the target's own tokens will do: it scores and continues by them.

use bytes::Bytes;
use overdraft_core::route::Tried;
use overdraft_telemetry::Delivery;
use overdraft_wire::Object;

use super::ask;
use super::call::{Matter, Outset};
use crate::fingerprint::Fingerprint;
use crate::shared::Strictness;
use crate::tokenizing;

const TOKENIZE: &str = "/tokenize";

/// The tokens of the prompt of `body`, which names the target.
pub(super) async fn of_target(
    outset: &Outset,
    print: &Fingerprint,
    body: &Bytes,
    path: &'static str,
) -> Option<Vec<u32>> {
    let object = Object::parse(body).ok()?;
    if let Some(ids) = object.raw("prompt").and_then(|raw| serde_json::from_str(raw).ok()) {
        // It came in tokens.
        return Some(ids);
    }
    if let Some(tokens) = tokenizing::tokens(&outset.shared, &print.model, body, path).await {
        return Some(tokens.into_iter().map(|token| token.0).collect());
    }
    let body = ask::tokens(&object, &print.model);
    tokens(outset, print, body).await
}

/// What a worker of `print`'s model makes of the text in `body`.
pub(super) async fn tokens(outset: &Outset, print: &Fingerprint, body: Bytes) -> Option<Vec<u32>> {
    let mut print = print.clone();
    (print.limit, print.is_chore, print.delivery) = (Some(0), true, Delivery::Whole);
    let matter = Matter { print, path: TOKENIZE, body };
    let lease = outset.place(&matter, &Tried::default(), Strictness::Waived).ok()?;
    let answer = outset.whole(lease, &matter).await.ok()?;
    ask::read_tokens(&answer)
}
