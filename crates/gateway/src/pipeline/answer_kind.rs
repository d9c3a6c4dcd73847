//! Answer kind: what the head of a worker's answer announces, and whom it blames.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode, response};
use overdraft_core::fleet::{self, Failure, failure_of};
use overdraft_wire::{ApiError, Endpoint, names_out_of_memory};

use super::question::Question;
use crate::settings::Credentials;

/// What sort of answer a head announces.
pub(super) enum Kind {
    Stream,
    Whole,
    /// No document: numbers as they lie in memory, or subtitles.
    Opaque,
    /// A recording or a picture, which goes out as it comes.
    Recording,
    /// The worker says that it cannot, which another may.
    Refusal(Failure),
    Nonsense(String),
}

pub(super) fn kind(
    head: &response::Parts,
    credentials: Credentials,
    endpoint: Option<Endpoint>,
) -> Kind {
    if let Some(encoding) = head.headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Kind::Nonsense(format!("it is encoded as {encoding:?}, which was not asked for"));
    }
    let whose = match credentials {
        Credentials::Strip => fleet::Credentials::Own,
        Credentials::Forward => fleet::Credentials::Client,
    };
    if let Some(failure) = failure_of(head.status.as_u16(), whose) {
        return Kind::Refusal(failure);
    }
    match head.status {
        // It blames the request, in whatever words: a proxy before it speaks no JSON.
        status if status.is_client_error() => Kind::Whole,
        status if status.is_redirection() || status.is_informational() => {
            Kind::Nonsense(format!("its status is {status}"))
        }
        status if status.is_success() && is(&head.headers, "text/event-stream") => Kind::Stream,
        _ if is_json(&head.headers) => Kind::Whole,
        status if status.is_success() && endpoint.is_some_and(Endpoint::answers_media) => {
            media(&head.headers)
        }
        status
            if status.is_success()
                && is(&head.headers, "application/octet-stream")
                && endpoint.is_some_and(|endpoint| !endpoint.generates()) =>
        {
            Kind::Opaque
        }
        status => Kind::Nonsense(format!("it is no JSON, with status {status}")),
    }
}

/// What sort of media an answer is. A page is none: a proxy wrote it.
fn media(headers: &HeaderMap) -> Kind {
    let is_any = |types: &[&str]| types.iter().any(|media_type| is(headers, media_type));
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    match () {
        () if is_any(&TEXTS) => Kind::Opaque,
        () if is_any(&["application/octet-stream", "application/ogg"]) => Kind::Recording,
        () if MEDIA.iter().any(|sort| begins(value, sort)) => Kind::Recording,
        () => {
            let told = String::from_utf8_lossy(value);
            Kind::Nonsense(format!("its `content-type` is `{told}`; expected media, text or JSON"))
        }
    }
}

/// Subtitles, and what was heard without anything around it.
const TEXTS: [&str; 3] = ["text/plain", "text/vtt", "application/x-subrip"];

/// What media types of recordings and pictures begin with.
const MEDIA: [&str; 3] = ["audio/", "image/", "video/"];

/// Whether an error is back-pressure: the worker's memory is full. Where the client is blamed, the words may be its
/// own that are said back to it, and prove nothing.
pub(super) fn is_out_of_memory(status: StatusCode, error: &[u8], question: &Question<'_>) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    is_error
        && names_out_of_memory(error)
        && !(status.is_client_error() && question.content.may_name_out_of_memory())
}

/// Whether a status says that a field is wrong.
pub(super) const fn is_invalid(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

/// What a client is told where the worker's own words are none for it.
pub(super) fn told(failure: Failure, status: StatusCode) -> ApiError {
    match failure {
        Failure::Misconfigured => ApiError::upstream(
            "the worker does not accept the gateway's credentials; its operator has to correct them",
        ),
        _ => ApiError::upstream(format!("the worker answered {status}")),
    }
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    is(headers, "application/json")
}

/// Whether an answer has this media type, whatever its parameters.
fn is(headers: &HeaderMap, media_type: &str) -> bool {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    begins(value, media_type) && matches!(value.get(media_type.len()), None | Some(b';' | b' '))
}

fn begins(value: &[u8], start: &str) -> bool {
    let own = value.get(..start.len());
    own.is_some_and(|own| own.eq_ignore_ascii_case(start.as_bytes()))
}
