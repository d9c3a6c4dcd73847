//! Answer kind: what the head of a worker's answer announces, and whom it blames.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode, response};
use overdraft_core::fleet::{self, Failure, failure_of};
use overdraft_wire::{ApiError, Endpoint, names_out_of_memory};

use super::attempt::Question;
use crate::settings::Credentials;

/// What sort of answer a head announces.
pub(super) enum Kind {
    Stream,
    Whole,
    /// Numbers as they lie in memory, which a client may ask for where nothing is generated.
    Numbers,
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
        status
            if status.is_success()
                && is(&head.headers, "application/octet-stream")
                && endpoint.is_some_and(|endpoint| !endpoint.generates()) =>
        {
            Kind::Numbers
        }
        status => Kind::Nonsense(format!("it is no JSON, with status {status}")),
    }
}

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
            "the worker does not accept the gateway's credentials; this is for the operator to mend",
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
    value.split_at_checked(media_type.len()).is_some_and(|(own, parameters)| {
        own.eq_ignore_ascii_case(media_type.as_bytes())
            && matches!(parameters.first(), None | Some(b';' | b' '))
    })
}
