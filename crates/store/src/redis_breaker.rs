//! Circuit breaker before Redis: pauses commands after consecutive failures.
//!
//! After a few consecutive failures nothing is sent for a while, and then one trial command decides
//! (half-open). That bounds the cost of a frozen Redis.

use tokio::time::{Duration, Instant};

/// Consecutive failures that open it.
pub const FUSE_FAILURES: u32 = 5;

/// How long it is open the first time; twice as long each time after.
pub const FUSE_FIRST: Duration = Duration::from_secs(1);

/// Maximum time open: the latest at which a recovered Redis is noticed.
pub const FUSE_MAX: Duration = Duration::from_secs(4);

/// A look-up that takes as long is late: many times what a store in the same zone takes.
const LATE: Duration = Duration::from_millis(15);

/// Stops commands to a broken Redis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisBreaker {
    failures: u32,
    until: Option<Instant>,
    next: Duration,
}

impl RedisBreaker {
    pub(crate) const fn new() -> Self {
        Self { failures: 0, until: None, next: FUSE_FIRST }
    }

    /// Whether something may be sent.
    pub(crate) fn lets_through(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Whether one of many may send something: while it is open, who finds out has `within` for it
    /// before another may.
    pub(crate) fn admits(&mut self, now: Instant, within: Duration) -> bool {
        match self.until {
            None => true,
            Some(until) if until <= now => {
                self.until = Some(now + within);
                true
            }
            Some(_) => false,
        }
    }

    /// It was answered.
    pub(crate) const fn held(&mut self) {
        *self = Self::new();
    }

    /// It was answered `took` after it was asked, while a request waited: what comes late is as bad as nothing.
    pub(crate) fn answered_after(&mut self, took: Duration, now: Instant) {
        if took < LATE { self.held() } else { self.failed(now) }
    }

    /// It was not.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        // A trial that fails opens it at once.
        if FUSE_FAILURES <= self.failures || self.until.is_some() {
            self.until = Some(now + self.next);
            self.next = (self.next * 2).min(FUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_five_failures_in_a_row_and_lets_one_command_find_out() {
        let (mut breaker, mut now) = (RedisBreaker::new(), Instant::now());
        for _ in 1..FUSE_FAILURES {
            breaker.failed(now);
            assert!(breaker.lets_through(now));
        }
        for open in [1, 2, 4, 4, 4] {
            breaker.failed(now);
            now += Duration::from_secs(open);
            assert!(!breaker.lets_through(now - Duration::from_millis(1)));
            assert!(breaker.lets_through(now));
        }
        let mut other = breaker;
        assert!(other.admits(now, FUSE_FIRST), "one finds out");
        assert!(!other.admits(now, FUSE_FIRST), "and no other meanwhile");
        assert!(other.admits(now + FUSE_FIRST, FUSE_FIRST));
        breaker.held();
        breaker.failed(now);
        assert!(breaker.lets_through(now));
    }

    #[test]
    fn late_answers_open_it_and_one_in_time_closes_it() {
        let (mut breaker, now) = (RedisBreaker::new(), Instant::now());
        for _ in 0..FUSE_FAILURES {
            assert!(breaker.lets_through(now));
            breaker.answered_after(LATE, now);
        }
        assert!(!breaker.lets_through(now));
        breaker.answered_after(LATE / 2, now);
        assert!(breaker.lets_through(now));
    }
}
