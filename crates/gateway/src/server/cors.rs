//! Cross-origin sharing: tells browsers which pages may ask and read the answers.
//!
//! Credentials of browsers are never allowed: a page sends its key itself, so that no page asks with another's.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use overdraft_http::Body;

use crate::settings::CorsSettings;

/// Stands for every page.
const EVERY_PAGE: &str = "*";

/// What clients' endpoints are asked by.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");

/// What a page may send that asks for nothing in particular.
const HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, x-api-key, x-request-id");

/// Bytes of a page's wishes that are granted at most; clients name two dozen headers.
const WISHES_BYTES_MAX: usize = 2_048;

/// Headers of answers that a page may read, besides those that browsers always show.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, \
     x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
     x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, \
     anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, \
     anthropic-ratelimit-requests-reset, anthropic-ratelimit-tokens-limit, \
     anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset, \
     openai-processing-ms, x-overdraft-worker, x-overdraft-served-by, x-overdraft-priority, x-cache, age",
);

/// What one answer says to browsers.
#[derive(Debug)]
pub(super) struct Sharing {
    /// The page that may read it: its origin, or all.
    with: Option<HeaderValue>,
    /// Whether another page would be told something else.
    varies: bool,
    max_age_seconds: u64,
}

impl Sharing {
    /// With whom the answer to this request is shared; nothing where nothing is configured.
    pub(super) fn of(settings: &CorsSettings, head: &HeaderMap) -> Option<Self> {
        if settings.origins.is_empty() {
            return None;
        }
        let max_age_seconds = settings.max_age.as_secs();
        if settings.origins.iter().any(|origin| origin == EVERY_PAGE) {
            let with = Some(HeaderValue::from_static(EVERY_PAGE));
            return Some(Self { with, varies: false, max_age_seconds });
        }
        let asks = head.get(ORIGIN).filter(|asks| {
            let is = |origin: &String| asks.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
            settings.origins.iter().any(is)
        });
        Some(Self { with: asks.cloned(), varies: true, max_age_seconds })
    }

    /// The answer to a browser that asks whether a page may ask; none where it may not, or that is not the question.
    pub(super) fn preflight(&self, head: &Parts) -> Option<Response<Body>> {
        let asks = head.method == Method::OPTIONS
            && head.headers.contains_key(ORIGIN)
            && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks || self.with.is_none() {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let wishes = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
        let granted = wishes.filter(|wishes| wishes.len() <= WISHES_BYTES_MAX);
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, granted.cloned().unwrap_or(HEADERS));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(self.max_age_seconds));
        headers.append(VARY, HeaderValue::from_static("access-control-request-headers"));
        Some(response)
    }

    /// Tells the browser whether the page that asked may read the answer.
    pub(super) fn tell(self, headers: &mut HeaderMap) {
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(with) = self.with {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, with);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}
