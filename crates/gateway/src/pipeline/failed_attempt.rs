//! Failed attempt: what went wrong, and what the client is told if it was the last.

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response};
use overdraft_core::fleet::Failure;
use overdraft_http::{Body, reply};
use overdraft_telemetry::{EndCode, Ender, Phase};
use overdraft_units::Micros;
use overdraft_wire::ApiError;

use super::back_pressure::Pressure;
use super::context::RequestContext;
use super::deadline::Overrun;
use super::refusal;
use super::relay::Fault;
use crate::upstream::UpstreamError;

/// A failed attempt, and what the client is told if it was the last.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    end: EndCode,
    /// The limit of time that was passed, where that is the reason.
    pub(super) overrun: Option<Overrun>,
    pub(super) response: Response<Body>,
}

/// Mark of an answer that says that the prompt is longer than the model's context.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooLong;

impl Failed {
    pub(super) fn new(failure: Failure, phase: Phase, error: &ApiError) -> Self {
        let ender = match failure {
            Failure::Silent => Ender::ServerStalled,
            Failure::Saturated => Ender::Capacity,
            Failure::Unreachable
            | Failure::NoConnection
            | Failure::Local
            | Failure::Broken
            | Failure::Misconfigured
            | Failure::Disputed
            | Failure::Faulty => Ender::Server,
        };
        let (end, response) = (EndCode { ender, phase }, reply::error(error));
        Self { failure, end, overrun: None, response }
    }

    /// The worker's own words instead of ours.
    pub(super) fn saying(self, response: Response<Body>) -> Self {
        Self { response, ..self }
    }

    pub(super) fn of_fault(fault: &Fault) -> Self {
        let failure = fault.failure().unwrap_or(Failure::Broken);
        let failed = Self::new(failure, Phase::FirstToken, &fault.error());
        Self { overrun: fault.overrun(), ..failed }
    }

    /// What a client is told after both: the last word, unless the one before is of more use to it. Who is full says
    /// when to come back; that there is no such thing is the word of one worker alone.
    pub(crate) fn or_better(self, before: Option<Self>) -> Self {
        let use_of = |failed: &Self| match failed.failure {
            Failure::Saturated => 2,
            Failure::Disputed => 0,
            _ => 1,
        };
        before.filter(|before| use_of(&self) < use_of(before)).unwrap_or(self)
    }

    /// Whether it failed for want of room alone.
    pub(super) fn back_pressure(&self) -> Pressure {
        match self.failure {
            Failure::Saturated => Pressure::Full(self.retry_after()),
            _ => Pressure::None,
        }
    }

    /// For how long the worker asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Micros> {
        (self.failure == Failure::Saturated).then(|| refusal::asked_for(self.response.headers()))?
    }

    /// Ours, with the time that the worker asked for.
    pub(super) fn asking_to_wait(mut self, head: &HeaderMap) -> Self {
        if let Some(after) = head.get(RETRY_AFTER) {
            self.response.headers_mut().insert(RETRY_AFTER, after.clone());
        }
        self
    }

    /// What went wrong, as metrics call it.
    pub(crate) const fn kind(&self) -> &'static str {
        self.failure.name()
    }

    /// As a client is told that may come back: another worker, or this one later, may do it.
    pub(crate) fn into_response(mut self, context: &RequestContext<'_>) -> Response<Body> {
        refusal::bound_retry(self.response.headers_mut());
        self.into_verdict(context)
    }

    /// As a client is told whose request it is that fails.
    pub(crate) fn into_verdict(self, context: &RequestContext<'_>) -> Response<Body> {
        context.note(|record| record.end = self.end);
        self.response
    }
}

impl From<UpstreamError> for Failed {
    fn from(error: UpstreamError) -> Self {
        let failure = match error {
            UpstreamError::Refused(_) => Failure::Unreachable,
            UpstreamError::Unreached(_)
            | UpstreamError::ConnectTimedOut(_)
            | UpstreamError::Handshake(_) => Failure::NoConnection,
            UpstreamError::Resolve(_) | UpstreamError::Local(_) => Failure::Local,
            UpstreamError::Broken(_) => return Self::of_fault(&Fault::Broken(error.to_string())),
        };
        let told = ApiError::overloaded(format!("the worker cannot be reached: {error}"));
        Self::new(failure, Phase::Connect, &told)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_refused_connection_tells_that_a_worker_is_gone() {
        let late = || Error::from(ErrorKind::TimedOut);
        for (error, expected) in [
            (UpstreamError::Refused(late()), Failure::Unreachable),
            (UpstreamError::Unreached(late()), Failure::NoConnection),
            (UpstreamError::ConnectTimedOut(Duration::from_secs(1)), Failure::NoConnection),
            (UpstreamError::Handshake(late()), Failure::NoConnection),
            (UpstreamError::Resolve(late()), Failure::Local),
            (UpstreamError::Local(late()), Failure::Local),
        ] {
            let failed = Failed::from(error);
            assert_eq!(failed.failure, expected);
            assert_eq!(failed.response.status().as_u16(), 503, "a client may come back");
        }
    }
}
