//! Message errors: `{"type":"error","error":{"type","message"},"request_id"}`, with `details` where SDKs go by them.

use serde_json::json;

use crate::dialect::failure::{Failure, Overflow};
use crate::error::ErrorKind;

/// What Anthropic answers where there is no room; its clients come back after it.
const OVERLOADED: u16 = 529;

/// Words that coding agents look for to compact a conversation.
const TOO_LONG: &str = "prompt is too long";

/// The error's status and body.
pub fn error(failure: &Failure, request_id: &str) -> (u16, Vec<u8>) {
    let mut error = json!({"type": error_type(failure.status), "message": message(failure)});
    // By this code the SDK's tool runner sends the conversation itself, and goes on without a thread.
    if failure.code.as_deref() == ErrorKind::ThreadUnsupported.code() {
        error["details"] = json!({"error_code": failure.code});
    }
    let body = json!({"type": "error", "error": error, "request_id": request_id});
    (status(failure.status), body.to_string().into_bytes())
}

/// The error's words. Anthropic has two sentences for what does not fit, and agents go by them: where the prompt alone
/// fits, they ask again for a shorter answer, else they compact.
fn message(failure: &Failure) -> String {
    let message = &failure.message;
    if !failure.is_context_exceeded() {
        return message.clone();
    }
    if let Some(Overflow { prompt, answer, context }) = failure.overflow() {
        return format!(
            "input length and `max_tokens` exceed context limit: {prompt} + {answer} > {context}, decrease input \
             length or `max_tokens` and try again"
        );
    }
    if message.to_lowercase().contains(TOO_LONG) {
        return message.clone();
    }
    format!("{TOO_LONG}: {message}")
}

/// The error's class in this dialect.
const fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | OVERLOADED => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    }
}

const fn status(status: u16) -> u16 {
    match status {
        422 => 400,
        503 => OVERLOADED,
        status => status,
    }
}
