//! Page of the dashboard: static files with a strict policy.
//!
//! The files carry no data, so everybody may have them; the page asks for the admin token where views
//! are refused without one.

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use overdraft_dash::assets::{self, Asset};
use overdraft_http::{Body, reply};
use xxhash_rust::xxh3::xxh3_64;

const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Answers a request below `/dashboard`.
pub(in crate::server) fn answer(head: &Parts) -> Response<Body> {
    let path = head.uri.path();
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return reply::method_not_allowed(&head.method, path, &[Method::GET, Method::HEAD]);
    }
    let Some(name) = path.trim_start_matches('/').strip_prefix("dashboard/") else {
        // Relative addresses in the page start from here, whatever a proxy has put before it.
        return moved("dashboard/");
    };
    match assets::asset(name.trim_start_matches('/')) {
        Some(asset) => file(asset, head),
        None => reply::not_found(&head.method, path),
    }
}

fn moved(to: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    response
}

fn file(asset: &Asset, head: &Parts) -> Response<Body> {
    let tag = format!("\"{:016x}\"", xxh3_64(asset.bytes));
    let tag = HeaderValue::from_str(&tag).expect("digits are printable");
    let known = head.headers.get_all(IF_NONE_MATCH).iter().any(|known| *known == tag);
    let mut response = if known {
        let mut unchanged = Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        reply::document(HeaderValue::from_static(asset.content_type), asset.bytes)
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    for (name, value) in [
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, assets::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER, "same-origin"),
        (RESOURCE, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
