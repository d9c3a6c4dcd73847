//! Moving average (EWMA) as the ratio of two fading sums.

/// Each observation takes a thirty-second of what was there away.
const FADE: u64 = 32;

/// Larger terms are cut, so that a clock that jumped cannot take over.
const TERM_MAX: u64 = 1 << 40;

/// A numerator and a denominator, each a fading sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovingAverage {
    above: u64,
    below: u64,
}

/// Sums are kept this much finer than what they add up, so that fading small ones works.
const SCALE: u64 = 64;

impl MovingAverage {
    pub(crate) const fn new() -> Self {
        Self { above: 0, below: 0 }
    }

    pub(crate) fn note(&mut self, above: u64, below: u64) {
        self.above = self.above - self.above / FADE + above.min(TERM_MAX) * SCALE;
        self.below = self.below - self.below / FADE + below.min(TERM_MAX) * SCALE;
    }

    /// Numerator and denominator; both zero before the first observation.
    pub(crate) const fn parts(&self) -> (u64, u64) {
        (self.above / SCALE, self.below / SCALE)
    }
}
