//! Time limits of a stream: how long it may be silent, and when all of it must have ended.
//!
//! The pause between two events grows while the worker computes prompts. What bounds the whole answer holds whatever
//! the stream waits for, so it tells which of the two was passed: the attempt's own or its client's deadline.

use std::task::{Context, Poll};
use std::time::Duration;

use overdraft_core::deadline::{DeadlineSettings, Limit, stall};
use overdraft_http::DeadlineTimer;
use overdraft_telemetry::PassedLimit;
use overdraft_units::Micros;
use tokio::time::Instant;

use super::Fault;
use crate::dispatch::Lease;
use crate::pipeline::deadline::{Deadline, LATE, Overrun, Which};

/// The limits of one stream, and the timer that wakes it for the next of them.
#[derive(Debug)]
pub(crate) struct TimeLimits {
    timer: DeadlineTimer,
    deadlines: DeadlineSettings,
    /// Between two events, at the least.
    idle: Duration,
    /// How much longer than that it has been given since the last event.
    granted: Duration,
    /// Whether it is given no more than that.
    is_hurried: bool,
    total: Limit,
    /// When the whole answer must have ended.
    last: Instant,
    /// The client's deadline, or its key's.
    promised: Option<Deadline>,
}

impl TimeLimits {
    /// Of an answer that may take `total`, which is until `last`; its first event is awaited from now on.
    pub(crate) fn new(
        deadlines: DeadlineSettings,
        total: Limit,
        last: Instant,
        promised: Option<Deadline>,
    ) -> Self {
        let last = promised.map_or(last, |deadline| deadline.at.min(last));
        let idle = Duration::from(stall(deadlines, Micros::ZERO).after);
        let (mut timer, granted) = (DeadlineTimer::default(), Duration::ZERO);
        timer.arm_until(idle, last);
        Self { timer, deadlines, idle, granted, is_hurried: false, total, last, promised }
    }

    /// From now on an event is waited for no longer than this, whatever its worker computes.
    pub(crate) fn hurry(&mut self, idle: Duration) {
        self.idle = self.idle.min(idle);
        self.is_hurried = true;
    }

    /// Gives the worker its time to the next event.
    pub(crate) fn await_event(&mut self) {
        self.granted = Duration::ZERO;
        self.timer.arm_until(self.idle, self.last);
    }

    /// Waits for as long as the whole answer may take.
    pub(crate) fn await_end(&mut self) {
        let left = self.last.saturating_duration_since(Instant::now());
        self.timer.arm_until(left, self.last);
    }

    /// Gives the worker's connection so long to end.
    pub(crate) fn await_close(&mut self, patience: Duration) {
        self.timer.arm_until(patience, self.last);
    }

    /// Ready once what is waited for is late.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll_due(cx)
    }

    /// Whether the answer may still take some time.
    pub(crate) fn is_time_left(&self) -> bool {
        Instant::now() < self.last
    }

    /// What it says that the whole answer has taken too long, where it has.
    pub(crate) fn expired(&self) -> Option<Fault> {
        let now = Instant::now();
        if self.promised.is_some_and(|deadline| deadline.at <= now) {
            return Some(Fault::Late);
        }
        let total = Overrun { which: Which::Total, limit: self.total };
        (self.last <= now).then_some(Fault::Silent(total))
    }

    /// What it says that the timer has run out; nothing where the worker is given more time, as it computes prompts.
    pub(crate) fn overdue(&mut self, lease: Option<&Lease>) -> Option<Fault> {
        if let Some(fault) = self.expired() {
            return Some(fault);
        }
        let lease = lease.filter(|_| !self.is_hurried);
        let limit = lease.map(|lease| lease.stall_limit(self.deadlines));
        self.grant(limit.unwrap_or_else(|| stall(self.deadlines, Micros::ZERO)))
    }

    /// Gives the worker as long as `limit` says in all; what it says where it has had that.
    fn grant(&mut self, limit: Limit) -> Option<Fault> {
        let quiet = self.idle + self.granted;
        let more = Duration::from(limit.after).saturating_sub(quiet);
        if more.is_zero() || self.is_hurried {
            return Some(Fault::Silent(Overrun { which: Which::Stall, limit }));
        }
        self.granted += more;
        self.timer.arm_until(more, self.last);
        None
    }

    /// As the access record tells the limit that a fault has passed, where it has passed one.
    pub(crate) fn passed(&self, fault: &Fault) -> Option<PassedLimit> {
        match (fault, self.promised) {
            (Fault::Late, Some(deadline)) => Some(deadline.passed(LATE)),
            _ => fault.overrun().map(Overrun::fact),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use overdraft_core::deadline::Basis;

    use super::*;
    use crate::pipeline::deadline::named;

    /// What is told and recorded of an answer of a second at most that does not end, for a client that allows so many
    /// milliseconds.
    async fn late(allowed: Option<&'static str>) -> (Fault, PassedLimit) {
        let mut head = HeaderMap::new();
        if let Some(allowed) = allowed {
            head.insert("x-overdraft-deadline-ms", HeaderValue::from_static(allowed));
        }
        let second = Duration::from_secs(1);
        let total = Limit { after: Micros::from(second), basis: Basis::Set };
        let (last, promised) = (Instant::now() + second, named(&head).unwrap());
        let mut limits = TimeLimits::new(DeadlineSettings::default(), total, last, promised);
        limits.await_end();
        assert_eq!(limits.expired(), None);
        std::future::poll_fn(|cx| limits.poll_due(cx)).await;
        let fault = limits.expired().unwrap();
        let passed = limits.passed(&fault).unwrap();
        (fault, passed)
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_of_an_answer_and_its_client_s_deadline_are_told_apart() {
        let (fault, passed) = late(None).await;
        assert!(fault.error().message.contains("as `timeouts.total` is set"), "{fault:?}");
        assert_eq!((passed.name, passed.basis), ("total", "set"));
        let (fault, passed) = late(Some("500")).await;
        assert_eq!(fault, Fault::Late);
        assert_eq!((passed.name, passed.basis), ("deadline", "header"));
        assert_eq!(passed.after, Micros::from(Duration::from_millis(500)));
        assert_eq!(late(Some("2000")).await.1.name, "total");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_computes_prompts_may_be_silent_for_longer_unless_it_is_hurried() {
        let [minute, hour] = [1, 60].map(Duration::from_mins);
        let total = Limit { after: Micros::from(hour), basis: Basis::Set };
        let prompts = Limit { after: Micros::from(minute), basis: Basis::Measured };
        let begun = Instant::now();
        let mut limits = TimeLimits::new(DeadlineSettings::default(), total, begun + hour, None);
        std::future::poll_fn(|cx| limits.poll_due(cx)).await;
        assert!(begun.elapsed() < minute);
        assert_eq!(limits.grant(prompts), None);
        std::future::poll_fn(|cx| limits.poll_due(cx)).await;
        assert!(minute <= begun.elapsed());
        let stalled = Some(Fault::Silent(Overrun { which: Which::Stall, limit: prompts }));
        assert_eq!(limits.grant(prompts), stalled);
        limits.hurry(Duration::from_secs(1));
        limits.await_event();
        std::future::poll_fn(|cx| limits.poll_due(cx)).await;
        assert_eq!(limits.grant(prompts), stalled);
    }
}
