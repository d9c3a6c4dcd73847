//! Response errors: OpenAI's object, with its codes, for whatever a worker answered.

use serde_json::json;

use crate::dialect::failure::Failure;

/// The error's status and body.
pub fn error(failure: &Failure) -> (u16, Vec<u8>) {
    let status = if failure.status == 422 { 400 } else { failure.status };
    let error = json!({
        "message": failure.message,
        "type": error_type(status),
        "param": failure.param,
        "code": code(failure),
    });
    (status, json!({ "error": error }).to_string().into_bytes())
}

/// The data of the event that tells an error in a stream of another's; `number` is its own among the events.
///
/// The SDKs' types have its members at the top, and their streams raise what stands in `error`, as `OpenAI`'s server
/// sends it.
pub fn error_event(failure: &Failure, number: u64) -> Vec<u8> {
    let (code, message, param) = (code(failure), &failure.message, &failure.param);
    let error = json!({
        "type": error_type(failure.status),
        "code": code,
        "message": message,
        "param": param,
    });
    let event = json!({
        "type": "error",
        "sequence_number": number,
        "code": code,
        "message": message,
        "param": param,
        "error": error,
    });
    event.to_string().into_bytes()
}

const fn error_type(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 => "overloaded_error",
        _ => "server_error",
    }
}

/// The word that programs go by; coding agents read nothing else.
pub(super) fn code(failure: &Failure) -> Option<String> {
    if failure.is_context_exceeded() {
        return Some("context_length_exceeded".to_owned());
    }
    let known = match failure.status {
        401 => "invalid_api_key",
        404 => "model_not_found",
        429 => "rate_limit_exceeded",
        503 => "server_is_overloaded",
        500.. => "server_error",
        _ => return failure.code.clone(),
    };
    // A word of the gateway's own says more than its status does, unless it is one of the server's inside.
    let own = failure.code.clone().filter(|_| failure.status < 500);
    Some(own.unwrap_or_else(|| known.to_owned()))
}
