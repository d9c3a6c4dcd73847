//! Scheduling order: priority with aging; one order for joining, computing and preemption.
//!
//! A sequence's turn is a point in time: its arrival, delayed by [`AGING_PER_LEVEL`] for every
//! level of priority. The turn never changes, so the order needs no updates as time passes, yet a
//! sequence ages against every later one: a sequence that arrives later than the difference of
//! their levels goes behind it (`docs/design/batch.md#r1`).

use alloc::collections::BTreeMap;
use core::ops::Bound;

use overdraft_units::{Instant, Micros, Priority};

use super::sequence::Handle;

/// How much waiting outweighs one level of priority.
pub(super) const AGING_PER_LEVEL: Micros = Micros::new(5_000_000);

/// Priorities beyond this, either way, count as this: bounds how long anyone can be passed over to
/// `2 * PRIORITY_LEVELS_MAX * AGING_PER_LEVEL`, 1,000 seconds.
pub(super) const PRIORITY_LEVELS_MAX: i32 = 100;

/// A sequence's place in the order; the smaller goes first. No two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    turn: Instant,
    /// Arrivals before it: settles ties.
    number: u64,
}

impl Rank {
    /// The place of the `number`th arrival.
    pub(super) fn new(arrived: Instant, priority: Priority, number: u64) -> Self {
        let level = priority.0.clamp(-PRIORITY_LEVELS_MAX, PRIORITY_LEVELS_MAX);
        // Counted from the most urgent level, so that no turn lies before the origin of time.
        let levels = u64::from(level.abs_diff(-PRIORITY_LEVELS_MAX));
        Self { turn: arrived + Micros::new(levels * AGING_PER_LEVEL.get()), number }
    }
}

/// The sequences that hold no pages, in the order of their turns.
///
/// Bounded by `waiting_max` arrivals plus the `running_max` that may have been preempted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitingQueue(BTreeMap<Rank, Handle>);

impl WaitingQueue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Lines up.
    pub(super) fn insert(&mut self, rank: Rank, handle: Handle) {
        let previous = self.0.insert(rank, handle);
        debug_assert_eq!(previous, None, "no two ranks are equal");
    }

    /// Leaves the line.
    pub(super) fn remove(&mut self, rank: Rank) {
        let removed = self.0.remove(&rank);
        debug_assert!(removed.is_some(), "only those who wait leave");
    }

    /// The first one behind `rank`, or the very first.
    pub(super) fn after(&self, rank: Option<Rank>) -> Option<(Rank, Handle)> {
        // Asked in every step, and mostly nobody waits.
        if self.0.is_empty() {
            return None;
        }
        let from = rank.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.range((from, Bound::Unbounded)).next().map(|(rank, handle)| (*rank, *handle))
    }

    /// Everyone, first turn first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Rank, Handle)> + '_ {
        self.0.iter().map(|(rank, handle)| (*rank, *handle))
    }
}
