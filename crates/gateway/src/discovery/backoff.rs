//! Exponential backoff: the pause before a failed discovery source is asked again.
//!
//! Each pause is twice the last, between two bounds: a blip costs a second, an outage no load.

use std::time::Duration;

/// The pause before the next try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// Records a failure; returns the pause before the next attempt.
    pub(super) fn failed(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Records a success, which resets the pause.
    pub(super) const fn answered(&mut self) {
        self.next = self.first;
    }
}
