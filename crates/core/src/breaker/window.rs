//! Sliding window of attempts: successes and failures of the last ten seconds.

use overdraft_units::{Instant, Micros};

use super::Ended;

/// Width of one bucket.
pub const BUCKET: Micros = Micros::new(1_000_000);

/// Buckets in the window.
pub const BUCKETS: usize = 10;

/// Counts of the last [`BUCKETS`] buckets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The index of the interval that it counts.
    number: u64,
    total: u32,
    failures: u32,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { buckets: [Bucket { number: 0, total: 0, failures: 0 }; BUCKETS] }
    }

    /// Counts one end.
    pub(super) fn note(&mut self, ended: Ended, now: Instant) {
        let number = number(now);
        let Some(bucket) = self.buckets.get_mut(place(number)) else { return };
        if bucket.number != number {
            *bucket = Bucket { number, total: 0, failures: 0 };
        }
        bucket.total = bucket.total.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(u32::from(ended == Ended::Failed));
    }

    /// All ends and the failures among them.
    pub(super) fn sum(&self, now: Instant) -> (u32, u32) {
        let newest = number(now);
        let span = u64::try_from(BUCKETS).unwrap_or(u64::MAX);
        let young =
            self.buckets.iter().filter(|bucket| newest < bucket.number.saturating_add(span));
        young.fold((0_u32, 0_u32), |(total, failures), bucket| {
            (total.saturating_add(bucket.total), failures.saturating_add(bucket.failures))
        })
    }
}

fn number(now: Instant) -> u64 {
    now.since(Instant::ORIGIN).get() / BUCKET.get()
}

fn place(number: u64) -> usize {
    let span = u64::try_from(BUCKETS).unwrap_or(1);
    usize::try_from(number % span).unwrap_or(0)
}
