//! How much may one request ask for?
//!
//! Bounds of the operator's beside those of the workers: on the prompt, and on `max_tokens`, which a
//! request that names none gets by default. None are set unless configured.

use overdraft_wire::{ApiError, ErrorKind, RequestPeek};

use crate::fingerprint::Fingerprint;
use crate::shared::Shared;

/// What one request may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestBounds {
    /// Tokens of a prompt at most.
    pub prompt_tokens: Option<u32>,
    /// Tokens of an answer at most.
    pub max_tokens: Option<u32>,
    /// Tokens of an answer of whoever does not say.
    pub max_tokens_default: Option<u32>,
}

impl RequestBounds {
    /// What is to be said for a request that does not say how long its answer may be.
    ///
    /// # Errors
    /// Where it asks for more than it may.
    pub(crate) fn answer(self, peek: &RequestPeek<'_>) -> Result<Option<u32>, ApiError> {
        let Some(asked) = peek.max_tokens else { return Ok(self.max_tokens_default) };
        match self.max_tokens {
            Some(most) if most < asked || asked == 0 => {
                let message = format!("`max_tokens` is {asked}; expected 1 to {most}");
                Err(ApiError::invalid("max_tokens", message))
            }
            _ => Ok(None),
        }
    }
}

/// Refuses a prompt that is longer than it may be. One whose tokens nobody knows passes.
///
/// # Errors
/// Says how long it is and may be.
pub(crate) fn check_prompt(shared: &Shared, print: &Fingerprint) -> Result<(), ApiError> {
    let Some(most) = shared.settings().limits.of_request.prompt_tokens else { return Ok(()) };
    if print.is_chore || !print.is_measured() {
        return Ok(());
    }
    let (prompt, _) = shared.router().expected(print.request());
    if prompt.get() <= most {
        return Ok(());
    }
    let about = if print.is_counted() { "" } else { "about " };
    let message = format!(
        "the prompt has {about}{} tokens, and {most} are allowed; send a shorter prompt",
        prompt.get()
    );
    Err(ApiError::new(ErrorKind::ContextLengthExceeded, message))
}
