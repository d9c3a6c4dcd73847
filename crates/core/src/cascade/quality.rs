//! Quality estimate: the loss rate of weighted labels with Wilson's confidence interval.
//!
//! The interval is at 95 %. Weights reduce the effective sample size to `(sum of w)² / sum of w²`
//! labels. Zero losses in few labels do not prove a loss of zero; Wilson's interval says so and the
//! normal approximation does not.

use super::probability::WHOLE;
use overdraft_units::Ratio;

/// The square of 1.96, in millionths.
const Z_SQUARED: u128 = 3_841_459;

/// A share of weighted labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    labels: u64,
    sum: u64,
    hits: u64,
    squares: u128,
}

/// A confidence interval of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The point estimate.
    pub share: Ratio,
    /// The lower bound (2.5 %).
    pub low: Ratio,
    /// The upper bound (2.5 %).
    pub high: Ratio,
}

impl Estimate {
    /// Takes note of a label of that weight.
    pub fn note(&mut self, weight: u64, hit: bool) {
        self.labels += 1;
        self.sum = self.sum.saturating_add(weight);
        self.hits = self.hits.saturating_add(if hit { weight } else { 0 });
        self.squares = self.squares.saturating_add(u128::from(weight) * u128::from(weight));
    }

    /// How many labels there are.
    pub const fn labels(&self) -> u64 {
        self.labels
    }

    /// The share with its interval; from nothing to everything before the first label.
    pub fn interval(&self) -> Interval {
        let share = Ratio::of(self.hits, self.sum);
        let sum = u128::from(self.sum);
        let Some(labels) = (sum * sum).checked_div(self.squares).filter(|&labels| 0 < labels)
        else {
            return Interval { share, low: Ratio::NONE, high: Ratio::WHOLE };
        };
        let whole = u128::from(WHOLE);
        let hits = u128::from(share.get());
        let below = labels * whole + Z_SQUARED;
        let centre = (hits * labels * whole + whole * Z_SQUARED / 2) / below;
        let spread = hits * (whole - hits) / whole * labels + Z_SQUARED / 4;
        let half = (Z_SQUARED * spread).isqrt() * whole / below;
        let chance = |parts: u128| Ratio::millionths(u32::try_from(parts).unwrap_or(WHOLE));
        Interval {
            share,
            low: chance(centre.saturating_sub(half)).min(share),
            high: chance(centre + half).max(share),
        }
    }
}
