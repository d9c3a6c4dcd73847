//! Wake turns: when the hook of a model is called that has no worker up while requests are held for it, or a cascade
//! misses it.
//!
//! A call that failed is made again after a moment, one that was heard only after a cooldown, for a worker takes its
//! time to start. Invariant: one call to a model is under way at most.

use overdraft_units::{Instant, Micros};

/// From a call that was heard to the next.
const WAKE_COOLDOWN: Micros = Micros::new(30_000_000);

/// The same after one that failed.
const WAKE_RETRY: Micros = Micros::new(2_000_000);

/// When a model's hook may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeTurn {
    /// A call is under way.
    UnderWay,
    /// From then on.
    From(Instant),
}

impl Default for WakeTurn {
    fn default() -> Self {
        Self::From(Instant::ORIGIN)
    }
}

impl WakeTurn {
    /// Takes the turn where `wanted` requests want a worker and it is due; whether the hook is to be called.
    pub fn take(&mut self, wanted: usize, now: Instant) -> bool {
        let is_due = matches!(*self, Self::From(time) if time <= now) && 0 < wanted;
        if is_due {
            *self = Self::UnderWay;
        }
        is_due
    }

    /// The call has ended, and the hook has taken it or not.
    pub fn ended(&mut self, is_heard: bool, now: Instant) {
        let pause = if is_heard { WAKE_COOLDOWN } else { WAKE_RETRY };
        *self = Self::From(now + pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_called_once_at_a_time_and_rests_between() {
        let at = |seconds: u64| Instant::ORIGIN + Micros::new(seconds * 1_000_000);
        let mut turn = WakeTurn::default();
        assert!(!turn.take(0, at(0)), "nobody waits");
        assert!(turn.take(1, at(1)));
        assert!(!turn.take(9, at(100)), "one is under way");
        turn.ended(false, at(100));
        assert_eq!([101, 102].map(|s| { turn }.take(1, at(s))), [false, true], "it failed");
        turn.ended(true, at(102));
        assert_eq!([131, 132].map(|s| { turn }.take(1, at(s))), [false, true], "it was heard");
    }
}
