//! Head of an answer: a worker's answer as it is handed to the client.

use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, Response, response};
use overdraft_http::Body;

use crate::settings::HeaderSettings;
use crate::upstream::{Upstream, headers};

const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// An answer that is passed on.
pub(super) fn relayed(
    mut head: response::Parts,
    body: Body,
    upstream: &Upstream,
    rules: Option<&HeaderSettings>,
) -> Response<Body> {
    headers::relayed(&mut head.headers, upstream, rules);
    Response::from_parts(head, body)
}

/// The same as a stream: nobody on the way may hold events back.
pub(super) fn streamed(
    head: response::Parts,
    body: Body,
    upstream: &Upstream,
    rules: Option<&HeaderSettings>,
) -> Response<Body> {
    let mut response = relayed(head, body, upstream, rules);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}
