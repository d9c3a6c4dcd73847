//! Deadline: when a client wants its answer to have ended, whatever that takes.
//!
//! It bounds everything: the wait for a worker, all attempts, and the stream. Before the first token it is an
//! error with a status, later one in band. No worker is blamed for it.

use std::future::Future;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_wire::{ApiError, ErrorKind};
use tokio::time::{Instant, timeout_at};

use super::refusal::Refused;

const DEADLINE: HeaderName = HeaderName::from_static("x-overdraft-deadline-ms");

/// Milliseconds at most: a day.
const MILLISECONDS_MAX: u64 = 86_400_000;

/// The deadline that a request names, from when its head came.
///
/// # Errors
/// 400 where it is no time that an answer may take.
pub(crate) fn named(head: &HeaderMap) -> Result<Option<Instant>, ApiError> {
    let Some(value) = head.get(DEADLINE) else { return Ok(None) };
    let told = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    match told.filter(|milliseconds| (1..=MILLISECONDS_MAX).contains(milliseconds)) {
        Some(milliseconds) => Ok(Some(Instant::now() + Duration::from_millis(milliseconds))),
        None => Err(wrong(value)),
    }
}

fn wrong(value: &HeaderValue) -> ApiError {
    let said = String::from_utf8_lossy(value.as_bytes());
    let message = format!(
        "`{said}` is not a `{DEADLINE}`; expected milliseconds from 1 to {MILLISECONDS_MAX}"
    );
    ApiError::invalid(DEADLINE.as_str(), message)
}

/// What `answering` comes to, unless the deadline passes before: then its attempts end at their workers.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    answering: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    let Some(deadline) = deadline else { return answering.await };
    let passed = |_elapsed| Refused::from(missed());
    timeout_at(deadline, answering).await.unwrap_or_else(|elapsed| Err(passed(elapsed)))
}

/// What a client is told whose deadline has passed.
pub(crate) fn missed() -> ApiError {
    ApiError::new(ErrorKind::Timeout, format!("the answer did not end by its `{DEADLINE}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_that_an_answer_may_take_is_one() {
        let mut head = HeaderMap::new();
        assert_eq!(named(&head), Ok(None));
        for silly in ["soon", "-5", "0", "1e99", "99999999999999999999", "1.5", ""] {
            head.insert(DEADLINE, HeaderValue::from_static(silly));
            assert!(named(&head).is_err(), "{silly}");
        }
        head.insert(DEADLINE, HeaderValue::from_static("2000"));
        assert!(named(&head).unwrap().is_some());
    }
}
