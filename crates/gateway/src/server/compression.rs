//! Compressed answers: whole JSON documents, for clients that ask for it, where the operator allows it.
//!
//! Streams are never compressed: an encoder holds events back until it has enough of them.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use http_body::Body as _;
use overdraft_http::{Body, Coding, encode};

use crate::settings::CompressionSettings;

/// Bytes of an answer that is worth the work: a shorter one fits into a packet anyway.
const BYTES_MIN: u64 = 1_024;

/// What becomes of the answer to one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compression {
    /// What the client would like, if anything.
    wanted: Option<Coding>,
}

impl Compression {
    /// That of the answer to this request; nothing where answers are not compressed.
    pub(super) fn of(settings: CompressionSettings, head: &Parts) -> Option<Self> {
        let applies = settings.answers && head.method != Method::HEAD;
        applies.then(|| Self { wanted: Coding::wanted(&head.headers) })
    }

    /// The answer, compressed if it is a document that is worth it and the client asked.
    pub(super) fn apply(self, mut response: Response<Body>) -> Response<Body> {
        if !is_worth_it(&response) {
            return response;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
        let Some(coding) = self.wanted else { return response };
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
        response.map(|body| encode(body, coding))
    }
}

fn is_worth_it(response: &Response<Body>) -> bool {
    let headers = response.headers();
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_document = content_type.is_some_and(|it| it.starts_with(b"application/json"));
    // One whose length nobody knows was too long to be held back.
    let is_long = response.body().size_hint().exact().is_none_or(|bytes| BYTES_MIN <= bytes);
    is_document && is_long && !headers.contains_key(CONTENT_ENCODING)
}
