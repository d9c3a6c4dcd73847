//! Missed models: drafts that a cascade would have asked and that no worker served, though nobody waits for one.
//!
//! A cascade without a draft asks its target at once. What it would have asked counts for a while as one request that
//! waits, so that the draft's pool wants its first worker. Invariant: a model counts once, however often it is missed:
//! a miss wakes a pool and enlarges none. Each gateway has misses of its own.
//!
//! A draft that no worker will ever serve, as one whose name is wrong, must not keep its pool up: what has counted for
//! long and was never served rests. Once it was served, all begins anew.

use alloc::collections::BTreeMap;
use alloc::string::String;

use overdraft_units::{Instant, Micros};

/// For how long a miss counts: autoscalers look every half minute, some of them at figures as old as that.
pub const MISS_LASTS: Micros = Micros::new(120_000_000);

/// For how long a model counts in all before it rests: a large model is loaded within that.
pub const MISS_WANTED: Micros = Micros::new(900_000_000);

/// For how long it rests then. What was not missed for so long is forgotten.
pub const MISS_RESTS: Micros = Micros::new(3_600_000_000);

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
pub struct Misses(BTreeMap<String, Miss>);

impl Misses {
    /// A model was missed; whether it has just counted for so long that it rests. Beyond the maximum it is not
    /// remembered.
    pub fn note(&mut self, model: &str, now: Instant) -> bool {
        self.0.retain(|_, miss| now.since(miss.last) < MISS_RESTS);
        if let Some(miss) = self.0.get_mut(model) {
            return miss.again(now);
        }
        if self.0.len() < MISSED_MAX {
            self.0.insert(String::from(model), Miss { last: now, counted: Micros::ZERO });
        }
        false
    }

    /// Forgets the models that are served.
    pub fn forget_served(&mut self, is_served: impl Fn(&str) -> bool) {
        self.0.retain(|model, _| !is_served(model));
    }

    /// The models that were missed of late and do not rest, in the order of their names.
    pub fn recent(&self, now: Instant) -> impl Iterator<Item = &str> {
        let recent = self.0.iter().filter(move |(_, miss)| miss.counts(now));
        recent.map(|(model, _)| model.as_str())
    }
}

/// A model that was missed and not served since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Miss {
    /// When it was missed last, or began to rest.
    last: Instant,
    /// For how long it had counted by then.
    counted: Micros,
}

impl Miss {
    /// Whether it has counted for so long that it rests.
    fn rests(self) -> bool {
        MISS_WANTED <= self.counted
    }

    fn counts(self, now: Instant) -> bool {
        !self.rests() && now.since(self.last) < MISS_LASTS
    }

    /// It is missed again; whether it rests from now on.
    fn again(&mut self, now: Instant) -> bool {
        if self.rests() {
            return false;
        }
        self.counted += now.since(self.last).min(MISS_LASTS);
        self.last = now;
        self.rests()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

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
        misses.note("later", at(3_600));
        assert!(misses.recent(at(3_600)).eq(["later"]));
    }

    #[test]
    fn a_model_that_is_never_served_rests_and_is_tried_again() {
        let mut misses = Misses::default();
        let told: Vec<u64> = (0..5_000).filter(|&s| misses.note("small", at(s))).collect();
        assert_eq!(told, [900], "it is told once");
        let mut misses = Misses::default();
        let counts = |second: u64| {
            misses.note("small", at(second));
            misses.recent(at(second)).count() == 1
        };
        let counted: Vec<bool> = (0..6_000).map(counts).collect();
        let expected = |second: u64| second < 900 || (4_500..5_400).contains(&second);
        assert!((0..6_000).map(expected).eq(counted));
    }

    #[test]
    fn a_model_that_is_missed_now_and_then_rests_by_the_time_it_counted() {
        let mut misses = Misses::default();
        let told: Vec<u64> = (0..20).filter(|&time| misses.note("small", at(time * 200))).collect();
        assert_eq!(told, [8], "each miss counts for two minutes");
    }

    #[test]
    fn once_a_model_was_served_all_begins_anew() {
        let mut misses = Misses::default();
        for second in 0..=900 {
            misses.note("small", at(second));
        }
        misses.forget_served(|model| model != "small");
        misses.note("small", at(901));
        assert_eq!(misses.recent(at(901)).count(), 0);
        misses.forget_served(|model| model == "small");
        let told: Vec<u64> = (902..2_000).filter(|&s| misses.note("small", at(s))).collect();
        assert_eq!(told, [1_802]);
    }
}
