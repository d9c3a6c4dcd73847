//! A/B comparison: Welch's confidence interval for latency, cost and loss of two arms.
//!
//! Each arm keeps a count, a sum and a sum of squares of latency, cost and loss; the result is the
//! difference of the means with its interval at 95 %. No samples are kept: a comparison of a
//! million requests takes as much room as one of ten.

use super::probability::{Propensity, WEIGHT_ONE, WHOLE};
use super::scorer::Label;
use crate::cost::Money;
use crate::route::Arm;
use overdraft_units::Micros;

/// Values are clamped to this maximum: a clock that jumped must not decide.
const VALUE_MAX: u64 = 1 << 40;
/// Maximum samples per arm, so that sums of squares fit into 128 bits.
const COUNT_MAX: u64 = 1 << 40;
/// Minimum samples per arm before a comparison is reported.
pub const COMPARED_MIN: u64 = 30;

/// Mean and spread of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    count: u64,
    sum: u128,
    squares: u128,
}

impl Spread {
    /// Takes note of a value.
    pub fn note(&mut self, value: u64) {
        if self.count < COUNT_MAX {
            let value = u128::from(value.min(VALUE_MAX));
            self.count += 1;
            self.sum += value;
            self.squares = self.squares.saturating_add(value * value);
        }
    }

    /// How many values were noted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; nothing before the first value.
    pub fn mean(&self) -> Option<u64> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The variance of the mean, of one value at least.
    fn variance_of_mean(&self) -> u128 {
        let count = u128::from(self.count);
        let mean = self.sum / count.max(1);
        let variance = (self.squares / count.max(1)).saturating_sub(mean * mean);
        variance / count.saturating_sub(1).max(1)
    }
}

/// By how much the side on trial is above the one in force, in the quantity's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The mean of what is in force.
    pub baseline: u64,
    /// The difference of the means.
    pub difference: i64,
    /// It is at least this, and at most [`Self::high`], with 95 %.
    pub low: i64,
    /// See [`Self::low`].
    pub high: i64,
}

impl Change {
    /// What the two sides say; nothing while one has fewer than [`COMPARED_MIN`].
    pub fn between(baseline: &Spread, canary: &Spread) -> Option<Self> {
        if baseline.count.min(canary.count) < COMPARED_MIN {
            return None;
        }
        let (before, after) = (baseline.mean()?, canary.mean()?);
        let difference = signed(after) - signed(before);
        let variance = baseline.variance_of_mean() + canary.variance_of_mean();
        let half = variance.isqrt() * 196 / 100 + 1;
        let half = i64::try_from(half).unwrap_or(i64::MAX / 2);
        let (low, high) = (difference.saturating_sub(half), difference.saturating_add(half));
        Some(Self { baseline: before, difference, low, high })
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    latency: Spread,
    cost: Spread,
    loss: Spread,
}

/// Both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    baseline: Side,
    canary: Side,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Findings {
    /// In microseconds.
    pub latency: Option<Change>,
    /// In millionths of a millionth of a dollar.
    pub cost: Option<Change>,
    /// The share of answers that are worse than the target's, in millionths.
    pub loss: Option<Change>,
}

impl Comparison {
    /// Takes note of how long an answer took, from the request to its end.
    pub fn took(&mut self, arm: Arm, latency: Micros) {
        self.side(arm).latency.note(latency.get());
    }

    /// Takes note of what it cost.
    pub fn cost(&mut self, arm: Arm, cost: Money) {
        self.side(arm).cost.note(cost.get());
    }

    /// Takes note of whether it is worse than the target's. One that was looked at counts for as many as it was one of,
    /// and one that was not for none, so that the mean is that of all (Horvitz and Thompson).
    pub fn judged(&mut self, arm: Arm, looked: Option<(Label, Propensity)>) {
        let lost = looked.filter(|(label, _)| *label == Label::Worse);
        let thousandths = lost.map_or(0, |(_, propensity)| propensity.weight_thousandths());
        self.side(arm).loss.note(thousandths * u64::from(WHOLE) / WEIGHT_ONE);
    }

    /// Answers of that side whose end was seen.
    pub fn answers(&self, arm: Arm) -> u64 {
        match arm {
            Arm::Baseline => self.baseline.latency.count(),
            Arm::Canary => self.canary.latency.count(),
        }
    }

    const fn side(&mut self, arm: Arm) -> &mut Side {
        match arm {
            Arm::Baseline => &mut self.baseline,
            Arm::Canary => &mut self.canary,
        }
    }

    /// What it says so far.
    pub fn findings(&self) -> Findings {
        let (before, after) = (&self.baseline, &self.canary);
        Findings {
            latency: Change::between(&before.latency, &after.latency),
            cost: Change::between(&before.cost, &after.cost),
            loss: Change::between(&before.loss, &after.loss),
        }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
