//! Traffic: how many requests come to a fleet, and how they are shared out among its workers.
//!
//! A prompt delays those who come after it *to its worker* (docs/design/routing.md, R3). Hot workers get more than the
//! mean and idle ones less, so the fleet's arrivals are dealt out by worker: by its share of the requests in flight or
//! of those that were sent lately, whichever is more. In flight alone is too noisy where few are, and sent alone is too
//! late where a crowd comes at once. Nobody is taken to get less than a quarter of the mean: a worker that was idle until
//! now gets its share from now on.

use overdraft_units::Instant;

use crate::estimate::{Arrivals, Pace};

/// What was sent before the last so many requests for each worker counts by half, before twice as many by a quarter.
const SENT_SPAN: u64 = 8;

/// A request that was sent just now; halves of it still count.
const ONE: u32 = 64;

/// The least that a worker is taken to get, as a part of the mean.
const LEAST_PART: u64 = 4;

/// Binary digits behind the point of what one request stands for.
const DIGITS: u32 = 10;

/// Requests that were sent lately, those before by half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentLately {
    count: u32,
    span: u32,
}

impl SentLately {
    /// Nothing was.
    pub(super) const NONE: Self = Self { count: 0, span: 0 };

    fn in_span(self, span: u32) -> u32 {
        self.count.checked_shr(span.saturating_sub(self.span)).unwrap_or(0)
    }

    /// One more is sent.
    pub(super) fn note(&mut self, span: u32) {
        *self = Self { count: self.in_span(span).saturating_add(ONE), span };
    }
}

/// What is sent to a fleet.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    arrivals: Arrivals,
    /// Of the fleet, whatever they serve.
    pub(super) workers: usize,
    /// On all workers, others' included.
    pub(super) in_flight: u64,
    sent: SentLately,
    span: u32,
    sent_in_span: u64,
}

impl Traffic {
    /// A request goes to one of the workers; returns the span that it falls into.
    pub(super) fn send(&mut self) -> u32 {
        let most = SENT_SPAN.saturating_mul(u64::try_from(self.workers).unwrap_or(u64::MAX));
        if most <= self.sent_in_span {
            (self.span, self.sent_in_span) = (self.span.saturating_add(1), 0);
        }
        self.sent_in_span += 1;
        self.sent.note(self.span);
        self.span
    }

    /// So many tokens have to be computed for it.
    pub(super) fn note(&mut self, tokens: u64, now: Instant) {
        self.arrivals.note(tokens, now);
    }
}

/// How many a prompt delays at a worker for each second that it takes there, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    least: u64,
    /// For each request that is in flight there, with [`DIGITS`].
    by_request: u64,
    /// For each that was sent there lately, with as many.
    by_sent: u64,
    span: u32,
}

impl Behind {
    /// At one of the workers, which go at that pace. Requests are counted over all models, and so are workers: a model's
    /// own part comes out by what its workers have in flight and were sent.
    pub(super) fn of(traffic: &Traffic, pace: Pace) -> Self {
        let workers = u64::try_from(traffic.workers).unwrap_or(u64::MAX).max(1);
        let mean = traffic.arrivals.behind_milli(workers, pace);
        let all = mean.saturating_mul(workers) << DIGITS;
        let sent = u64::from(traffic.sent.in_span(traffic.span));
        Self {
            least: mean / LEAST_PART,
            by_request: all.checked_div(traffic.in_flight).unwrap_or(0),
            by_sent: all.checked_div(sent).unwrap_or(0),
            span: traffic.span,
        }
    }

    /// At the worker that has so many requests in flight, and was sent so many lately.
    #[inline]
    pub(crate) fn at(&self, requests: u32, sent: SentLately) -> u64 {
        let by_request = self.by_request.saturating_mul(u64::from(requests));
        let by_sent = self.by_sent.saturating_mul(u64::from(sent.in_span(self.span)));
        (by_request.max(by_sent) >> DIGITS).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Micros;

    use super::*;

    /// Sends so many to one of four workers.
    fn send(traffic: &mut Traffic, to: &mut SentLately, count: u64) {
        for _ in 0..count {
            to.note(traffic.send());
        }
    }

    #[test]
    fn what_was_sent_counts_by_half_after_each_span() {
        let mut traffic = Traffic { workers: 4, ..Traffic::default() };
        let (mut one, mut other) = (SentLately::default(), SentLately::default());
        send(&mut traffic, &mut one, 32);
        assert_eq!(one.in_span(traffic.span), 32 * ONE);
        send(&mut traffic, &mut other, 32);
        assert_eq!(one.in_span(traffic.span), 16 * ONE, "a span has passed");
        send(&mut traffic, &mut other, 1);
        assert_eq!(one.in_span(traffic.span), 8 * ONE);
        assert_eq!(other.in_span(traffic.span), 17 * ONE);
        let all = one.in_span(traffic.span) + other.in_span(traffic.span);
        assert_eq!(traffic.sent.in_span(traffic.span), all, "all that was sent went to these");
    }

    #[test]
    fn more_come_after_a_prompt_at_a_hot_worker_than_at_an_idle_one() {
        let mut traffic = Traffic { workers: 4, ..Traffic::default() };
        let mut hot = SentLately::NONE;
        for second in 0..32 {
            hot.note(traffic.send());
            traffic.note(100, Instant::ORIGIN + Micros::new(1_000_000 * second));
        }
        let pace = Pace::per_second(1_000);
        let mean = traffic.arrivals.behind_milli(4, pace);
        let behind = Behind::of(&traffic, pace);
        let at = behind.at(0, hot);
        assert!(mean * 39 / 10 <= at && at <= mean * 4, "all of it is sent there: {at} of {mean}");
        assert_eq!(behind.at(0, SentLately::NONE), mean / LEAST_PART, "nothing was sent there");
        traffic.in_flight = 8;
        let behind = Behind::of(&traffic, pace);
        let at = behind.at(6, SentLately::NONE);
        assert!(mean * 29 / 10 <= at && at <= mean * 3, "three quarters are there: {at} of {mean}");
    }

    #[test]
    fn few_workers_of_a_busy_fleet_are_not_taken_to_get_all_of_it() {
        let (mut traffic, mut one) =
            (Traffic { workers: 64, ..Traffic::default() }, SentLately::NONE);
        // One request in 32 is for the two workers of a model; all of them are half busy.
        for turn in 0..640 {
            let span = traffic.send();
            if turn % 64 == 0 {
                one.note(span);
            }
            traffic.note(500, Instant::ORIGIN + Micros::new(15_625 * turn));
        }
        let at = Behind::of(&traffic, Pace::per_second(1_000)).at(0, one);
        // One request a second, half of its time: two come after a prompt for each second that it takes.
        assert!((1_000..=3_000).contains(&at), "{at}");
    }

    #[test]
    fn a_span_long_ago_counts_nothing() {
        let old = SentLately { count: u32::MAX, span: 0 };
        assert_eq!(old.in_span(40), 0);
    }
}
