//! Relative speed of a worker: whether it differs significantly from its fleet.
//!
//! The ratio of a machine's time to the time expected from the whole fleet is noisy: prompts differ
//! in length, and steps are shared. The null hypothesis is that machines are equal: a machine
//! differs when the mean of its last ratios is further from one than chance explains.
//!
//! Invariant: before a number of ratios were seen, nothing is proven.

/// Each ratio takes a thirty-second of what was there away: as many count.
const FADE: u64 = 32;

/// Sums are kept this much finer than what they add up, so that fading small ones works.
const SCALE: u64 = 64;

/// One as a ratio.
const ONE: u64 = 1_000;

/// A ratio beyond this is cut: a clock that jumped proves nothing.
const RATIO_MAX: u64 = 100 * ONE;

/// Ratios that must have been seen.
const SEEN_MIN: u64 = 8;

/// A mean nearer to one than this makes no difference worth knowing.
const APART_MIN: u64 = 250;

/// Standard errors that the mean must be away from one.
const ERRORS_MIN: u64 = 3;

/// What was seen of one machine beside its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relative {
    seen: u64,
    sum: u64,
    squares: u64,
}

impl Relative {
    pub(crate) const fn new() -> Self {
        Self { seen: 0, sum: 0, squares: 0 }
    }

    /// Something took `took` where `expected` was expected, both of one unit.
    pub(crate) fn note(&mut self, took: u64, expected: u64) {
        let ratio = took.saturating_mul(ONE).checked_div(expected).unwrap_or(ONE);
        let ratio = ratio.min(RATIO_MAX);
        let fade = |sum: u64, new: u64| sum - sum / FADE + new * SCALE;
        self.seen = fade(self.seen, 1);
        self.sum = fade(self.sum, ratio);
        self.squares = fade(self.squares, ratio * ratio);
    }

    /// Whether it is proven that the machine differs.
    pub(crate) fn is_proven(self) -> bool {
        if self.seen < SEEN_MIN * SCALE {
            return false;
        }
        let mean = self.sum / self.seen;
        let apart = mean.abs_diff(ONE);
        let variance = (self.squares / self.seen).saturating_sub(mean * mean);
        let error = variance.saturating_mul(ERRORS_MIN * ERRORS_MIN);
        APART_MIN <= apart && error * SCALE < apart * apart * self.seen
    }
}
