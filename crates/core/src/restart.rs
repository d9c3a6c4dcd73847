//! Restart backoff: exponential pauses between restarts of a process or worker.
//!
//! Each restart soon after the last waits twice as long, up to a bound; a process that has lived as
//! long as that bound resets the backoff. Used for a child process that dies and for a worker whose
//! memory fragments.

use overdraft_units::Micros;

/// How pauses grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first restart.
    pub first: Micros,
    /// Maximum; a process that has lived for so long starts again with `first`.
    pub max: Micros,
}

/// The restarts of one process that count against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restarts(u32);

impl Restarts {
    /// None yet.
    pub const NONE: Self = Self(0);

    /// How many count.
    pub const fn count(self) -> u32 {
        self.0
    }

    /// Counts one more, of a process that lived for `lived`, and says how long to wait.
    pub fn pause(&mut self, lived: Micros, backoff: Backoff) -> Micros {
        if backoff.max <= lived {
            self.0 = 0;
        }
        let doubled = 1_u64.checked_shl(self.0).unwrap_or(u64::MAX);
        self.0 = self.0.saturating_add(1);
        Micros::new(backoff.first.get().saturating_mul(doubled)).min(backoff.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_a_long_life_is_forgiven() {
        let backoff = Backoff { first: Micros::new(100), max: Micros::new(1_000) };
        let mut restarts = Restarts::default();
        let pauses = [10, 10, 999, 10, 10, 1_000, 0].map(|lived| {
            let pause = restarts.pause(Micros::new(lived), backoff);
            (pause.get(), restarts.count())
        });
        let expected = [(100, 1), (200, 2), (400, 3), (800, 4), (1_000, 5), (100, 1), (200, 2)];
        assert_eq!(pauses, expected);
        let mut many = Restarts(100);
        assert_eq!(many.pause(Micros::ZERO, backoff), backoff.max, "no shift overflows");
    }
}
