//! Dialect answers: whole ones, errors, and what their heads say.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use overdraft_http::{Body, reply};
use overdraft_telemetry::{RequestId, unix_time};
use overdraft_wire::ApiError;
use overdraft_wire::dialect::{Dialect, Failure};
use ring::rand::{SecureRandom, SystemRandom};

use crate::pipeline::keys::{Level, Standing};
use crate::pipeline::upstream_body::EffortLeftOut;

/// Bytes of a whole answer at most; it must be read to its end before it can be translated.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Random bytes of an id, which nobody can guess.
const ID_BYTES: usize = 24;

/// Where Anthropic's SDK reads a request's name.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Tells what was left out of the translation.
const LEFT_OUT: HeaderName = HeaderName::from_static("x-overdraft-left-out");

/// Names of the headers on one budget, as Anthropic has them: limit, remaining, reset.
type Names = [HeaderName; 3];

const OF_REQUESTS: Names = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];
const OF_TOKENS: Names = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A new id.
pub(super) fn fresh_id(prefix: &str) -> String {
    let mut bytes = [0; ID_BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random numbers");
    let mut id = String::with_capacity(prefix.len() + 2 * ID_BYTES);
    id.push_str(prefix);
    HEXLOWER.encode_append(&bytes, &mut id);
    id
}

/// Tells in head and log what was left out.
pub(super) fn tell_left_out(head: &mut HeaderMap, names: &[String], id: &RequestId) {
    if names.is_empty() {
        return;
    }
    let names = names.join(", ");
    tracing::debug!(request = %id, left_out = %names, "left out of the translation");
    if let Ok(value) = HeaderValue::from_str(&names) {
        head.insert(LEFT_OUT, value);
    }
}

/// Whether an answer is a stream.
pub(super) fn is_stream(response: &Response<Body>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"text/event-stream"))
}

/// Reads the body of an answer to its end.
pub(super) async fn collect(mut body: Body) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Failure::of(&ApiError::upstream("the worker's answer broke off before its end"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if ANSWER_BYTES_MAX < whole.len() + data.len() {
            let message = format!("the worker's answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(Failure::of(&ApiError::upstream(message)));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// A successful answer translated by `translate`; what is none stays as it is.
pub(super) async fn translated(
    response: Response<Body>,
    translate: impl FnOnce(&[u8]) -> Result<Vec<u8>, Failure>,
) -> Response<Body> {
    if !response.status().is_success() {
        return response;
    }
    let (head, body) = response.into_parts();
    let object = match collect(body).await {
        Ok(answer) => translate(&answer),
        Err(failure) => Err(failure),
    };
    match object {
        Ok(object) => {
            let mut response = Response::from_parts(head, Body::full(object));
            response.headers_mut().remove(CONTENT_LENGTH);
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            response
        }
        Err(failure) => reply::error(&ApiError::upstream(failure.message)),
    }
}

/// An answer in its dialect's shape where it is an error, with the request's name in its head.
pub(super) async fn signed(response: Response<Body>, dialect: Dialect, id: &str) -> Response<Body> {
    let mut response = if response.status().is_success() {
        response
    } else {
        reshaped(response, dialect, id).await
    };
    if let Ok(name) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, name);
    }
    if response.extensions_mut().remove::<EffortLeftOut>().is_some() {
        let name = match dialect {
            Dialect::Messages => "output_config.effort",
            Dialect::Responses => "reasoning.effort",
        };
        response.headers_mut().append(LEFT_OUT, HeaderValue::from_static(name));
    }
    if dialect == Dialect::Messages
        && let Some(standing) = response.extensions_mut().remove::<Standing>()
    {
        let now = Duration::try_from_secs_f64(unix_time()).unwrap_or_default();
        tell_standing(response.headers_mut(), standing, now);
    }
    response
}

/// Tells how a key stands, as Anthropic does: when a budget will be whole again is a time of the calendar.
fn tell_standing(head: &mut HeaderMap, standing: Standing, now: Duration) {
    for (names, level) in [(OF_REQUESTS, standing.requests), (OF_TOKENS, standing.tokens)] {
        let Some(Level { limit, remaining, reset }) = level else { continue };
        let [limit_name, remaining_name, reset_name] = names;
        head.insert(limit_name, HeaderValue::from(limit));
        head.insert(remaining_name, HeaderValue::from(remaining));
        let micros = now.as_micros() + u128::from(reset.get());
        let seconds = i64::try_from(micros.div_ceil(1_000_000)).unwrap_or(i64::MAX);
        let at = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        if let Ok(value) = HeaderValue::from_str(&at.to_string()) {
            head.insert(reset_name, value);
        }
    }
}

async fn reshaped(response: Response<Body>, dialect: Dialect, id: &str) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    let failure = failure_of(head.status, body).await;
    let (status, object) = dialect.error(&failure, id);
    head.status = StatusCode::from_u16(status).unwrap_or(head.status);
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, JSON);
    Response::from_parts(head, Body::full(object))
}

/// What an error answer says.
pub(super) async fn failure_of(status: StatusCode, body: Body) -> Failure {
    match collect(body).await {
        Ok(body) => Failure::read(status.as_u16(), &body),
        Err(failure) => Failure { status: status.as_u16(), ..failure },
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Micros;

    use super::*;

    #[test]
    fn a_budget_is_told_in_anthropic_s_words() {
        let level = Level { limit: 60, remaining: 59, reset: Micros::new(1_500_000) };
        let standing = Standing { requests: Some(level), tokens: None };
        let mut head = HeaderMap::new();
        tell_standing(&mut head, standing, Duration::from_secs(1_700_000_000));
        assert_eq!(head["anthropic-ratelimit-requests-limit"], "60");
        assert_eq!(head["anthropic-ratelimit-requests-remaining"], "59");
        assert_eq!(head["anthropic-ratelimit-requests-reset"], "2023-11-14T22:13:22Z");
        assert_eq!(head.len(), 3, "tokens are not limited");
    }
}
