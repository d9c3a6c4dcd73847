//! Missed models: drafts that a cascade would have asked and that no worker served, though nobody waits for one.
//!
//! A cascade without a draft asks its target at once. What it would have asked counts for a while as one request that
//! waits, so that the draft's pool wants its first worker. Invariant: a model counts once, however often it is missed:
//! a miss wakes a pool and enlarges none.

use alloc::collections::BTreeMap;
use alloc::string::String;

use overdraft_units::{Instant, Micros};

/// For how long a miss counts: autoscalers look every half minute, some of them at figures as old as that.
pub const MISS_LASTS: Micros = Micros::new(120_000_000);

/// Maximum models that are remembered.
const MISSED_MAX: usize = 256;

/// The models that were missed of late.
///
/// ```
/// use overdraft_core::scale::{MISS_LASTS, Misses};
/// use overdraft_units::Instant;
///
/// let (mut misses, now) = (Misses::default(), Instant::ORIGIN);
/// misses.note("small", now);
/// assert!(misses.recent(now).eq(["small"]));
/// assert_eq!(misses.recent(now + MISS_LASTS).count(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misses(BTreeMap<String, Instant>);

impl Misses {
    /// A model was missed. Beyond the maximum it is not remembered.
    pub fn note(&mut self, model: &str, now: Instant) {
        self.0.retain(|_, last| is_recent(*last, now));
        if let Some(last) = self.0.get_mut(model) {
            *last = now;
        } else if self.0.len() < MISSED_MAX {
            self.0.insert(String::from(model), now);
        }
    }

    /// The models that were missed of late, in the order of their names.
    pub fn recent(&self, now: Instant) -> impl Iterator<Item = &str> {
        let recent = self.0.iter().filter(move |(_, last)| is_recent(**last, now));
        recent.map(|(model, _)| model.as_str())
    }
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.since(last) < MISS_LASTS
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    #[test]
    fn a_model_counts_once_for_two_minutes_from_its_last_miss() {
        let mut misses = Misses::default();
        for second in 0..100 {
            misses.note("small", at(second));
        }
        misses.note("tiny", at(99));
        let count = |second| misses.recent(at(second)).count();
        assert_eq!([100, 218, 219].map(count), [2, 2, 0]);
    }

    #[test]
    fn no_more_models_are_remembered_than_may_and_old_ones_make_room() {
        let mut misses = Misses::default();
        for number in 0..MISSED_MAX + 10 {
            misses.note(&format!("{number:03}"), at(0));
        }
        assert_eq!(misses.recent(at(0)).count(), MISSED_MAX);
        misses.note("late", at(60));
        assert!(misses.recent(at(60)).all(|model| model != "late"));
        misses.note("later", at(120));
        assert!(misses.recent(at(120)).eq(["later"]));
    }
}
