//! Missed models: drafts that a cascade would have asked and that no worker served, though nobody waits for one.
//!
//! A cascade without a draft asks its target at once. What it would have asked counts for a while as one request that
//! waits, so that the draft's pool wants its first worker. Invariant: a model counts once, however often it is missed:
//! a miss wakes a pool and enlarges none. Each gateway has misses of its own.
//!
//! A draft that no worker will ever serve, as one whose name is wrong, must not keep its pool up: what has counted for
//! long and was never served rests. Once it was served for a while, all begins anew. A worker that is up for a moment
//! between two crashes begins nothing anew.

use alloc::collections::BTreeMap;
use alloc::string::String;

use overdraft_units::{Instant, Micros};

/// For how long a miss counts: autoscalers look every half minute, some of them at figures as old as that.
pub const MISS_LASTS: Micros = Micros::new(120_000_000);

/// For how long a model counts in all before it rests: a large model is loaded within that.
pub const MISS_WANTED: Micros = Micros::new(900_000_000);

/// For how long a model must have been served until all begins anew: longer than a worker is up that crashes at its
/// start, and shorter than autoscalers leave one up.
const MISS_SERVED: Micros = Micros::new(60_000_000);

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
            self.0.insert(String::from(model), Miss::new(now));
        }
        false
    }

    /// Takes note of the models that are served now: those do not count, and those that are for long are forgotten.
    pub fn look(&mut self, now: Instant, is_served: impl Fn(&str) -> bool) {
        self.0.retain(|model, miss| miss.look(is_served(model), now));
    }

    /// The models that were missed of late and do not rest, in the order of their names.
    pub fn recent(&self, now: Instant) -> impl Iterator<Item = &str> {
        let recent = self.0.iter().filter(move |(_, miss)| miss.counts(now));
        recent.map(|(model, _)| model.as_str())
    }
}

/// A model that was missed and not served for long since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Miss {
    /// When it was missed last, or began to rest.
    last: Instant,
    /// For how long it had counted by then.
    counted: Micros,
    /// When it was first seen served after that, from when on it does not count.
    ended: Option<Instant>,
    /// Since when it is served, at each look.
    up: Option<Instant>,
}

impl Miss {
    const fn new(now: Instant) -> Self {
        Self { last: now, counted: Micros::ZERO, ended: None, up: None }
    }

    /// Whether it has counted for so long that it rests.
    fn rests(self) -> bool {
        MISS_WANTED <= self.counted
    }

    fn counts(self, now: Instant) -> bool {
        !self.rests() && self.ended.is_none() && now.since(self.last) < MISS_LASTS
    }

    /// It is missed again; whether it rests from now on.
    fn again(&mut self, now: Instant) -> bool {
        if self.rests() {
            return false;
        }
        let until = self.ended.take().unwrap_or(now);
        self.counted += until.since(self.last).min(MISS_LASTS);
        (self.last, self.up) = (now, None);
        self.rests()
    }

    /// It is served now, or it is not; whether it is remembered.
    fn look(&mut self, is_served: bool, now: Instant) -> bool {
        if !is_served {
            self.up = None;
            return true;
        }
        self.ended = self.ended.or(Some(now));
        now.since(*self.up.get_or_insert(now)) < MISS_SERVED
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
    fn once_a_model_was_served_for_a_while_all_begins_anew() {
        let mut misses = Misses::default();
        for second in 0..=900 {
            misses.note("small", at(second));
        }
        misses.look(at(901), |model| model != "small");
        misses.note("small", at(901));
        assert_eq!(misses.recent(at(901)).count(), 0);
        for second in [902, 962] {
            misses.look(at(second), |model| model == "small");
        }
        let told: Vec<u64> = (963..2_500).filter(|&s| misses.note("small", at(s))).collect();
        assert_eq!(told, [1_863]);
    }

    #[test]
    fn a_model_that_is_served_does_not_count_and_needs_another_miss_after_that() {
        let mut misses = Misses::default();
        misses.note("small", at(0));
        misses.look(at(1), |_| true);
        assert_eq!(misses.recent(at(1)).count(), 0);
        misses.look(at(2), |_| false);
        assert_eq!(misses.recent(at(2)).count(), 0);
        misses.note("small", at(3));
        assert_eq!(misses.recent(at(3)).count(), 1);
    }

    #[test]
    fn a_model_that_is_up_for_moments_between_crashes_rests_by_the_time_it_counted() {
        let mut misses = Misses::default();
        let told: Vec<u64> = (0..4_000)
            .filter(|&second| {
                let is_up = second % 60 < 5;
                misses.look(at(second), |_| is_up);
                !is_up && misses.note("small", at(second))
            })
            .collect();
        assert_eq!(told, [985], "it counts for 55 seconds of each minute");
    }
}
