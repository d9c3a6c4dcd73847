//! Explanations in headers: who may have a decision explained, and how the answer tells it.
//!
//! Worker names and loads are for operators, so only requests that may use `/admin` get them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_http::{Exchange, is_operator};

use crate::settings::AdminSettings;

/// Asks for an explanation.
const EXPLAIN: HeaderName = HeaderName::from_static("x-overdraft-explain");

/// Bytes of an explanation that fit a header; a longer one is to be asked for at `/admin/explain`.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Whether whoever sent this may see and do what operators may.
pub(crate) fn is_allowed(admin: &AdminSettings, exchange: &Exchange, head: &HeaderMap) -> bool {
    is_operator(admin.token.as_deref(), exchange, head)
}

/// Whether a request asks why it goes where it goes, and may know.
pub(crate) fn is_wanted(admin: &AdminSettings, exchange: &Exchange, head: &HeaderMap) -> bool {
    let asked = head.get(EXPLAIN).is_some_and(|value| value == "1" || value == "true");
    asked && is_allowed(admin, exchange, head)
}

/// Tells it in the answer's head.
pub(crate) fn attach(head: &mut HeaderMap, words: &Bytes) {
    let text = if words.len() <= HEADER_BYTES_MAX {
        words.clone()
    } else {
        Bytes::from_static(br#"{"error":"too long for a header; POST /admin/explain tells it"}"#)
    };
    // Names of workers are printable, and so is JSON.
    if let Ok(value) = HeaderValue::from_maybe_shared(text) {
        head.insert(EXPLAIN, value);
    }
}
