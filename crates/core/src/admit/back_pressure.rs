//! Back-pressure: when a request that every worker was too full for is sent again, and when that is in vain.
//!
//! A worker's own 429 or 503 is true of its load at one moment, and the client can do nothing about it that a
//! gateway cannot do better. The request pauses, for as long as the worker asked or for a moment that doubles.
//! Where another model stands in, it waits for a moment alone, and not for a worker that serves nobody.
//!
//! Invariant: a request waits no longer than its patience, and returns a bounded number of times.

use overdraft_units::Micros;

/// The first pause of a request whose worker does not say when to come back.
const PAUSE_FIRST: Micros = Micros::new(250_000);

/// The longest.
const PAUSE_MAX: Micros = Micros::new(2_000_000);

/// A worker that asks for more is no engine that is full for a moment: a quota is spent, and that is the client's to
/// know.
const ASKED_MAX: Micros = Micros::new(5_000_000);

/// How long a request waits at most where another model stands in.
const FALLBACK_PATIENCE: Micros = Micros::new(3_000_000);

/// How often one request is sent again at most.
const RETURNS_MAX: u32 = 32;

/// What a worker said that was too full for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// For how long it asked to be left alone.
    pub asked: Option<Micros>,
    /// Whether it has answered others lately, so that its load may pass.
    pub is_busy: bool,
}

/// How long one request has yet to wait for full workers.
///
/// # Example
/// ```
/// use overdraft_core::admit::{BackPressure, Full};
/// use overdraft_units::Micros;
///
/// let mut waiting = BackPressure::new(Micros::new(30_000_000), false);
/// let full = Full { asked: None, is_busy: true };
/// assert_eq!(waiting.pause(full, Micros::ZERO), Some(Micros::new(250_000)));
/// assert_eq!(waiting.pause(full, Micros::new(400_000)), Some(Micros::new(500_000)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackPressure {
    patience: Micros,
    pause: Micros,
    returns: u32,
    stands_in: bool,
}

impl BackPressure {
    /// For a request that may wait for `patience`; `stands_in` where another model does for its own.
    pub fn new(patience: Micros, stands_in: bool) -> Self {
        let patience = if stands_in { patience.min(FALLBACK_PATIENCE) } else { patience };
        Self { patience, pause: PAUSE_FIRST, returns: 0, stands_in }
    }

    /// How long it may wait in all, from when it was first placed.
    pub const fn patience(&self) -> Micros {
        self.patience
    }

    /// After which pause it enters the queue again, `waited` after it was first placed; none where that is in vain.
    pub fn pause(&mut self, full: Full, waited: Micros) -> Option<Micros> {
        let asked = full.asked.unwrap_or(Micros::ZERO);
        let pause = asked.max(self.pause);
        let is_vain = ASKED_MAX < asked
            || self.patience < waited + pause
            || self.returns == RETURNS_MAX
            || self.stands_in && !full.is_busy;
        if is_vain {
            return None;
        }
        self.pause = (self.pause + self.pause).min(PAUSE_MAX);
        self.returns += 1;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Full = Full { asked: None, is_busy: true };
    const HOUR: Micros = Micros::new(3_600_000_000);

    fn ms(pause: Option<Micros>) -> Option<u64> {
        pause.map(|pause| pause.get() / 1_000)
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_so_often_at_most() {
        let mut waiting = BackPressure::new(HOUR, false);
        let pauses = [0; 5].map(|_| ms(waiting.pause(BUSY, Micros::ZERO)));
        assert_eq!(pauses, [Some(250), Some(500), Some(1_000), Some(2_000), Some(2_000)]);
        let more = (5..=RETURNS_MAX).filter(|_| waiting.pause(BUSY, Micros::ZERO).is_some());
        assert_eq!(more.count(), 27, "the last of {RETURNS_MAX} was the last");
        assert_eq!(waiting.pause(BUSY, Micros::ZERO), None);
    }

    #[test]
    fn what_a_worker_asks_for_counts_where_it_is_a_moment() {
        let asked = |seconds: u64| {
            let full = Full { asked: Some(Micros::new(seconds * 1_000_000)), is_busy: true };
            ms(BackPressure::new(HOUR, false).pause(full, Micros::ZERO))
        };
        assert_eq!([asked(0), asked(3), asked(5)], [Some(250), Some(3_000), Some(5_000)]);
        assert_eq!(asked(6), None, "a quota is the client's to know");
    }

    #[test]
    fn nobody_waits_past_his_patience() {
        let mut waiting = BackPressure::new(Micros::new(1_000_000), false);
        assert_eq!(ms(waiting.pause(BUSY, Micros::new(750_000))), Some(250));
        assert_eq!(
            waiting.pause(BUSY, Micros::new(750_000)),
            None,
            "half a second more is too late"
        );
    }

    #[test]
    fn where_another_model_stands_in_a_moment_is_enough() {
        let waiting = BackPressure::new(HOUR, true);
        assert_eq!(waiting.patience(), FALLBACK_PATIENCE);
        let dead = Full { asked: None, is_busy: false };
        assert_eq!({ waiting }.pause(dead, Micros::ZERO), None);
        assert_eq!(ms({ waiting }.pause(BUSY, Micros::ZERO)), Some(250));
        // Without one it waits for a worker that serves nobody just now.
        assert_eq!(ms(BackPressure::new(HOUR, false).pause(dead, Micros::ZERO)), Some(250));
    }
}
