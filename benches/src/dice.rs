//! Draws that a seed decides, so that a load can be sent twice.

use std::time::Duration;

/// Equal seeds draw alike (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Draws that begin at `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub(crate) const fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..below`; zero where that is empty.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        let wide = u64::try_from(below.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.any() % wide).unwrap_or(0)
    }

    /// A number in `0..1`.
    pub(crate) fn share(&mut self) -> f64 {
        let bits = u32::try_from(self.any() >> 32).unwrap_or(u32::MAX);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// The time to the next of events that come at random, `per_second` of them on average.
    pub(crate) fn gap(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.share()).ln() / per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_that_was_asked_for() {
        let mut dice = Dice::new(7);
        let sum: Duration = (0..10_000).map(|_| dice.gap(50.0)).sum();
        let mean = sum.as_secs_f64() / 10_000.0;
        assert!((0.0195..0.0205).contains(&mean), "{mean}");
    }

    #[test]
    fn equal_seeds_draw_alike_and_stay_below() {
        let draws = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert!(draws(3).iter().all(|&draw| draw < 10));
    }
}
