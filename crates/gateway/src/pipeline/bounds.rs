//! Request bounds: how much one request may ask for.
//!
//! These are the operator's bounds, beside those of the workers: on the prompt, and on
//! `max_tokens`, which is also the default of a request without one. None are set unless
//! configured.

use overdraft_wire::{ApiError, ErrorKind, RequestPeek};

use super::Pipeline;
use super::request_info::{RequestInfo, Work};
use crate::settings::RequestBounds;

/// What is to be said for a request that does not say how long its answer may be.
///
/// # Errors
/// Where it asks for more than it may.
pub(crate) fn answer(
    bounds: RequestBounds,
    peek: &RequestPeek<'_>,
) -> Result<Option<u32>, ApiError> {
    let Some(asked) = peek.max_tokens else { return Ok(bounds.max_tokens_default) };
    match bounds.max_tokens {
        Some(most) if most < asked || asked == 0 => {
            let message = format!("`max_tokens` is {asked}; expected 1 to {most}");
            Err(ApiError::invalid("max_tokens", message))
        }
        _ => Ok(None),
    }
}

/// Refuses a prompt that is longer than it may be. One whose tokens nobody knows passes.
///
/// # Errors
/// Says how long it is and may be.
pub(crate) fn check_prompt(pipeline: &Pipeline, info: &RequestInfo) -> Result<(), ApiError> {
    let Some(most) = pipeline.settings().limits.of_request.prompt_tokens else { return Ok(()) };
    if info.work == Work::Chore || !info.is_measured() {
        return Ok(());
    }
    let (prompt, _) = pipeline.dispatcher.view().expected(info.request());
    if prompt.get() <= most {
        return Ok(());
    }
    let about = if info.is_counted() { "" } else { "about " };
    let message = format!(
        "the prompt has {about}{} tokens, and {most} are allowed; send a shorter prompt",
        prompt.get()
    );
    Err(ApiError::new(ErrorKind::ContextLengthExceeded, message))
}
