//! Reply constructors: the few forms of an answer.
//!
//! **Invariant:** every error is `OpenAI`'s object, says whether and when to come back, and closes
//! the connection when the request's body may still be on its way.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use overdraft_wire::{ApiError, ErrorKind};

use crate::body::Body;

/// Seconds after which a refused client may come back.
pub const RETRY_AFTER_SECONDS: u64 = 1;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A JSON document.
pub fn json(status: StatusCode, document: impl Into<Bytes>) -> Response<Body> {
    with_type(status, JSON, Body::full(document))
}

/// Plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    with_type(status, TEXT, Body::full(text))
}

/// A document of some other type, such as an exposition of metrics.
pub fn document(content_type: HeaderValue, document: impl Into<Bytes>) -> Response<Body> {
    with_type(StatusCode::OK, content_type, Body::full(document))
}

/// Server-sent events, which nobody on the way may hold back.
pub fn event_stream(events: Body) -> Response<Body> {
    let mut response = with_type(StatusCode::OK, EVENTS, events);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// A refusal.
pub fn error(error: &ApiError) -> Response<Body> {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, error.to_json());
    let headers = response.headers_mut();
    match error.kind {
        ErrorKind::RateLimited | ErrorKind::Overloaded => {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        // The rest of the body is not read; the next request would begin in the middle of it.
        ErrorKind::RequestTooLarge
        | ErrorKind::RequestTimeout
        | ErrorKind::UnsupportedMediaType => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// The path exists, but not for this method.
pub fn method_not_allowed(method: &Method, path: &str, allowed: &[Method]) -> Response<Body> {
    let mut response = error(&ApiError::method_not_allowed(method.as_str(), path));
    let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(", ")) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

/// No such path.
pub fn not_found(method: &Method, path: &str) -> Response<Body> {
    error(&ApiError::not_found(method.as_str(), path))
}

/// The same answer as bytes, for a client whose head could not even be parsed.
pub(crate) fn raw(error: &ApiError, request_id: &str) -> Vec<u8> {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let document = error.to_json();
    let mut bytes = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\nx-request-id: {request_id}\r\n\r\n",
        status.as_str(),
        status.canonical_reason().unwrap_or("Error"),
        document.len(),
    )
    .into_bytes();
    bytes.extend_from_slice(&document);
    bytes
}

fn with_type(status: StatusCode, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
