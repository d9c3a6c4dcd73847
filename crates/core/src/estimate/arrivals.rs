//! Queueing delay: how much one prompt delays later requests (M/G/1 busy period).
//!
//! What is computed for one request stands before all that come to the worker until its queue is empty
//! again. A queue has arrivals at rate λ and is busy for a share ρ of its time. Then λ / (1 − ρ) requests a second
//! come in the time that what is there now takes, and in the time that they take themselves: the
//! busy period of an M/G/1 queue (Kleinrock 1975, section 5.8).

use overdraft_units::{Instant, Micros};

use super::{MovingAverage, Pace};

/// Arrivals per second and worker, in thousandths, at most: a crowd that comes at once has no rate.
const RATE_MILLI_MAX: u64 = 1_000_000;

/// The share of its time, in thousandths, for which a worker is never taken to be busy with prompts.
const IDLE_MILLI_MIN: u64 = 100;

/// Prompts that were sent to a fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// Requests over microseconds.
    requests: MovingAverage,
    /// Prompt tokens to be computed over microseconds.
    tokens: MovingAverage,
    last: Option<Instant>,
}

impl Arrivals {
    /// One was sent, with so many tokens to be computed.
    pub(crate) fn note(&mut self, tokens: u64, now: Instant) {
        let elapsed = self.last.map_or(0, |last| now.since(last).get());
        self.last = Some(now);
        self.requests.note(1, elapsed);
        self.tokens.note(tokens, elapsed);
    }

    /// How many come after a prompt for each second that it and what stands before it takes, in thousandths,
    /// at one of `workers` that go at that pace.
    pub(crate) fn behind_milli(&self, workers: u64, pace: Pace) -> u64 {
        let workers = workers.max(1);
        let (requests, micros) = self.requests.parts();
        let rate = requests.saturating_mul(1_000_000_000) / micros.max(1) / workers;
        let (tokens, micros) = self.tokens.parts();
        let busy = pace.time_for(tokens).get().saturating_mul(1_000) / micros.max(1) / workers;
        let idle = 1_000_u64.saturating_sub(busy).max(IDLE_MILLI_MIN);
        rate.min(RATE_MILLI_MAX) * 1_000 / idle
    }
}

/// What two times come to where one of them is spent by all who come in the other; both in microseconds.
#[inline]
pub(crate) fn delayed(own: Micros, span: Micros, behind_milli: u64) -> u64 {
    // Every decision asks it of every worker, and mostly 64 bits will do: a division of 128 takes several times as long.
    let narrow = own.get().checked_mul(span.get()).map(|product| product / 1_000_000);
    if let Some(product) = narrow.and_then(|seconds| seconds.checked_mul(behind_milli)) {
        return product / 1_000;
    }
    let product = u128::from(own.get()) * u128::from(span.get()) / 1_000_000;
    let delay = product.saturating_mul(u128::from(behind_milli)) / 1_000;
    u64::try_from(delay).unwrap_or(u64::MAX)
}
