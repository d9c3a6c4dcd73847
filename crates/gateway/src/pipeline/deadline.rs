//! Deadline: when an answer must have ended, and which limit of time was passed where one was.
//!
//! A request's deadline is its client's word or its key's. It bounds everything: the wait for a worker, all attempts,
//! and the stream. Before the first token a missed one is an error with a status, later one in band; a request that
//! clearly cannot make it is told at once. No worker is blamed for it. The limits of single attempts are the core's
//! ([`overdraft_core::deadline`]).

use std::future::Future;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_core::deadline::{Basis, Limit, Prediction};
use overdraft_telemetry::PassedLimit;
use overdraft_units::Micros;
use overdraft_wire::{ApiError, ErrorKind};
use tokio::time::{Instant, timeout_at};

use super::facts::SharedFacts;
use super::keys::Caller;
use super::refusal::Refused;

const DEADLINE: HeaderName = HeaderName::from_static("x-overdraft-deadline-ms");

/// Milliseconds at most: a day.
const MILLISECONDS_MAX: u64 = 86_400_000;

/// Limits of so many seconds or more are told in whole ones.
const WHOLE_SECONDS_FROM: u64 = 10;

/// How access records call a deadline that has passed.
pub(crate) const LATE: &str = "deadline";

/// How they call one that clearly would have.
pub(crate) const PREDICTED: &str = "predicted";

/// When an answer must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// From the head of the request on.
    span: Duration,
    /// Whose word it is.
    by: &'static str,
}

impl Deadline {
    fn after(span: Duration, by: &'static str) -> Self {
        Self { at: Instant::now() + span, span, by }
    }

    /// What is left of it.
    pub(crate) fn left(self) -> Micros {
        Micros::from(self.at.saturating_duration_since(Instant::now()))
    }

    /// As the access record tells that it was passed, or would have been.
    pub(crate) fn passed(self, name: &'static str) -> PassedLimit {
        PassedLimit { name, after: Micros::from(self.span), basis: self.by }
    }
}

/// The deadline that a request names, from when its head came.
///
/// # Errors
/// 400 where it is no time that an answer may take.
pub(crate) fn named(head: &HeaderMap) -> Result<Option<Deadline>, ApiError> {
    let Some(value) = head.get(DEADLINE) else { return Ok(None) };
    let told = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let span = told.filter(|milliseconds| (1..=MILLISECONDS_MAX).contains(milliseconds));
    let span = span.map(Duration::from_millis).ok_or_else(|| wrong(value))?;
    Ok(Some(Deadline::after(span, "header")))
}

/// The deadline that the caller's key gives to requests that name none.
pub(crate) fn of_key(caller: &Caller) -> Option<Deadline> {
    caller.deadline().map(|span| Deadline::after(span, "key"))
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
    deadline: Option<Deadline>,
    facts: &SharedFacts,
    answering: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    let done = in_time(deadline, facts, answering).await;
    done.unwrap_or_else(|| Err(Refused::for_lateness(missed())))
}

/// The same of what cannot be refused; nothing where the deadline passes before, which the record tells.
pub(crate) async fn in_time<T>(
    deadline: Option<Deadline>,
    facts: &SharedFacts,
    work: impl Future<Output = T>,
) -> Option<T> {
    let Some(deadline) = deadline else { return Some(work.await) };
    let done = timeout_at(deadline.at, work).await.ok();
    if done.is_none() {
        facts.note(|record| record.limit = Some(deadline.passed(LATE)));
    }
    done
}

/// What a client is told whose deadline has passed.
pub(crate) fn missed() -> ApiError {
    let message =
        format!("the answer did not end by its deadline (`{DEADLINE}`, or its key's `deadline`)");
    ApiError::new(ErrorKind::Timeout, message)
}

/// What a client is told whose answer clearly cannot end within what is left.
pub(crate) fn hopeless(prediction: &Prediction, left: Micros) -> ApiError {
    let Prediction { queue, prefill, decode, .. } = *prediction;
    let message = format!(
        "the answer cannot end by its deadline: about {} are predicted ({} until the prompts \
         before it are computed, {} for its own, {} for its answer), and {} are left; ask for \
         less, or allow more time",
        told(prediction.whole()),
        told(queue),
        told(prefill),
        told(decode),
        told(left)
    );
    ApiError::new(ErrorKind::Timeout, message)
}

/// Which limit of an attempt was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// To its first token.
    FirstToken,
    /// Between two events.
    Stall,
    /// To its end.
    Total,
    /// While its worker's engine computed nothing.
    Standstill,
}

/// A limit of an attempt that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) which: Which,
    pub(crate) limit: Limit,
}

impl Overrun {
    /// As the access record has it.
    pub(crate) const fn fact(self) -> PassedLimit {
        let name = match self.which {
            Which::FirstToken => "first_token",
            Which::Stall => "stall",
            Which::Total => "total",
            Which::Standstill => "standstill",
        };
        PassedLimit { name, after: self.limit.after, basis: self.limit.basis.name() }
    }

    /// As a client is told.
    pub(crate) fn error(self) -> ApiError {
        let (what, key) = match self.which {
            Which::FirstToken => ("the worker did not begin its answer in time", "first_byte"),
            Which::Stall => ("the worker stopped sending in the middle of its answer", "idle"),
            Which::Total => ("the worker did not end its answer in time", "total"),
            Which::Standstill => ("the worker's engine has stalled", "first_byte"),
        };
        let why = match self.limit.basis {
            Basis::Set => format!("as `timeouts.{key}` is set"),
            Basis::Least => format!("the minimum of `timeouts.{key}`"),
            Basis::Measured => "by its measured speed".to_owned(),
            Basis::Assumed => "by an assumed speed, as none has been measured yet".to_owned(),
        };
        let message = format!("{what}: it had {}, {why}", told(self.limit.after));
        ApiError::new(ErrorKind::Timeout, message)
    }
}

/// When an attempt that was sent at `sent`, for a request that began at `begun`, must have ended.
pub(crate) fn end_of(total: Limit, begun: Instant, sent: Instant) -> Instant {
    let from = if total.basis == Basis::Set { begun } else { sent };
    from + Duration::from(total.after)
}

fn told(time: Micros) -> String {
    let span = Duration::from(time);
    if WHOLE_SECONDS_FROM <= span.as_secs() {
        format!("{} s", span.as_secs())
    } else {
        format!("{:.1} s", span.as_secs_f64())
    }
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

    #[test]
    fn an_overrun_names_its_limit_and_why_it_was_so_long() {
        let limit = Limit { after: Micros::new(90_400_000), basis: Basis::Measured };
        let said = Overrun { which: Which::FirstToken, limit }.error().message;
        assert!(said.ends_with("it had 90 s, by its measured speed"), "{said}");
        let limit = Limit { after: Micros::new(100_000), basis: Basis::Set };
        let said = Overrun { which: Which::Stall, limit }.error().message;
        assert!(said.ends_with("it had 0.1 s, as `timeouts.idle` is set"), "{said}");
    }
}
