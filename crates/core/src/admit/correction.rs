//! What does a worker's own word on its cache say that our books do not?
//!
//! Two things. What it holds beyond all that we may have put there is others': counted at once when
//! it grows, and forgotten by quarters. And of prompts that it held already when they were sent,
//! some are shared with others in flight and take no room of their own; that share is learnt where
//! it reports less than we booked, by quarters, and only while nothing waits there: what waits is
//! on our books and not in its cache. Between what has certainly been computed and what may have
//! been, its word says nothing that we did not know.

use overdraft_units::Tokens;

use super::forecast::Sums;

/// Cached tokens are never taken to be shared by more than this: some of each prompt is its own.
const UNSHARED_PERMILLE_MIN: u64 = 100;

/// One part in so many of a difference is believed each time.
const SLOWNESS: u64 = 4;

/// What was learnt of a worker's cache from its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Correction {
    /// Tokens that others hold.
    foreign: u64,
    /// The share of cached tokens that take room of their own, in thousandths.
    unshared_permille: u64,
}

impl Correction {
    pub(crate) const fn new() -> Self {
        Self { foreign: 0, unshared_permille: 1_000 }
    }

    /// Tokens that others hold.
    pub(crate) const fn foreign(&self) -> u64 {
        self.foreign
    }

    /// How many of so many cached tokens take room of their own.
    pub(crate) fn unshared(&self, cached: Tokens) -> Tokens {
        let unshared = u64::from(cached.get()) * self.unshared_permille / 1_000;
        Tokens::new(u32::try_from(unshared).unwrap_or(u32::MAX))
    }

    /// It holds `reported` tokens for requests, `waiting` of which have not begun.
    pub(crate) fn note(&mut self, reported: u64, waiting: u32, sums: Sums) {
        let certain = sums.used.saturating_sub(sums.prefilling);
        let excess = reported.saturating_sub(sums.used);
        if reported < certain && waiting == 0 {
            self.learn_sharing(reported, sums);
        } else if excess > 0 {
            let back = (1_000 - self.unshared_permille).div_ceil(SLOWNESS);
            self.unshared_permille += back;
        }
        self.foreign = if self.foreign < excess {
            excess
        } else {
            excess + (self.foreign - excess) * (SLOWNESS - 1) / SLOWNESS
        };
    }

    fn learn_sharing(&mut self, reported: u64, sums: Sums) {
        let alone = sums.used - sums.prefilling.min(sums.used);
        let missing = alone.saturating_sub(reported);
        let unshared = sums.unshared.saturating_sub(missing);
        let Some(seen) = (unshared * 1_000).checked_div(sums.cached) else { return };
        let seen = seen.clamp(UNSHARED_PERMILLE_MIN, 1_000);
        let before = self.unshared_permille;
        self.unshared_permille = if seen < before {
            before - (before - seen).div_ceil(SLOWNESS)
        } else {
            before + (seen - before) / SLOWNESS
        };
    }
}
