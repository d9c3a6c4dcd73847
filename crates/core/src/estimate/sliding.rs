//! Sliding-window ratio of two monotonic counters.
//!
//! An alert needs a recent ratio: one since the start hardly moves after a day, and one of the last
//! event jumps between nothing and all. The caller passes both counters with each read; their
//! earlier values are kept for the length of the window.

use alloc::collections::VecDeque;

use overdraft_units::{Instant, Micros};

/// How far the window reaches back: as far as the alerts that look at it wait. Where nobody has read
/// for longer, it reaches back to the last time.
pub const WINDOW: Micros = Micros::new(300_000_000);

/// Readings that are kept apart: at most one in this time.
const APART: Micros = Micros::new(15_000_000);

/// Readings kept: those of one window, and the one before it.
const READINGS_MAX: usize = 22;

/// A part and a whole, each counted since the start.
type Counts = (u64, u64);

/// What two counters were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingRatio {
    /// Earlier readings, the latest last; before the first both are zero.
    readings: VecDeque<(Instant, Counts)>,
}

impl SlidingRatio {
    /// Nothing read yet.
    pub const fn new() -> Self {
        Self { readings: VecDeque::new() }
    }

    /// By how much both counters, which are at `part` and `whole` now, have grown within the window;
    /// `None` where the whole has not: a share of nothing is no share.
    pub fn read(&mut self, part: u64, whole: u64, now: Instant) -> Option<(u64, u64)> {
        let is_old = |reading: &(Instant, Counts)| WINDOW <= now.since(reading.0);
        // Of those that are old enough the latest is where the window begins.
        while self.readings.get(1).is_some_and(is_old) {
            self.readings.pop_front();
        }
        let is_full = self.readings.len() == READINGS_MAX;
        let first = self.readings.front().filter(|first| is_old(first) || is_full);
        let before = first.map_or((0, 0), |first| first.1);
        let is_due = self.readings.back().is_none_or(|last| APART <= now.since(last.0));
        if is_due && !is_full {
            self.readings.push_back((now, (part, whole)));
        }
        // A counter that was reset has grown by all that it is.
        let since = |now: u64, before: u64| if now < before { now } else { now - before };
        let (part, whole) = (since(part, before.0), since(whole, before.1));
        (0 < whole).then_some((part.min(whole), whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    #[test]
    fn a_share_of_nothing_is_no_share() {
        let mut ratio = SlidingRatio::new();
        assert_eq!(ratio.read(0, 0, at(1)), None);
        assert_eq!(ratio.read(1, 4, at(2)), Some((1, 4)));
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut ratio = SlidingRatio::new();
        // All are good for an hour, then none.
        for second in (0..=3_600).step_by(5) {
            let (part, whole) = ratio.read(second + 1, second + 1, at(second)).unwrap();
            assert_eq!(part, whole);
        }
        assert_eq!(ratio.read(3_601, 3_661, at(3_660)), Some((240, 300)));
        for second in (3_665..=3_975).step_by(5) {
            ratio.read(3_601, second + 1, at(second));
        }
        assert_eq!(ratio.read(3_601, 3_976, at(3_975)), Some((0, 300)));
        // And when nothing more comes it is not told for ever.
        for second in (3_980..=4_300).step_by(5) {
            ratio.read(3_601, 3_976, at(second));
        }
        assert_eq!(ratio.read(3_601, 3_976, at(4_300)), None);
    }

    #[test]
    fn who_reads_seldom_gets_all_since_the_last_time() {
        let mut ratio = SlidingRatio::new();
        assert_eq!(ratio.read(5, 10, at(3_600)), Some((5, 10)));
        assert_eq!(ratio.read(5, 20, at(7_200)), Some((0, 10)));
    }

    #[test]
    fn reading_often_costs_no_more_and_changes_nothing() {
        let (mut seldom, mut often) = (SlidingRatio::new(), SlidingRatio::new());
        for tenth in 0..20_000 {
            let now = Instant::ORIGIN + Micros::new(tenth * 100_000);
            let told = often.read(tenth / 2, tenth, now);
            assert!(often.readings.len() <= READINGS_MAX);
            if tenth % 150 == 0 {
                assert_eq!(seldom.read(tenth / 2, tenth, now), told, "{tenth}");
            }
        }
    }
}
