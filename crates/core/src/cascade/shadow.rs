//! Shadow sampling: which drafts are compared with the target's answer to get a label.
//!
//! Each request is sampled with a known chance, so that inverse propensity weights correct for the
//! sampling: at first one in twenty, later as little as one in a hundred, and more where the score
//! is near the threshold, because there a label is most informative. `docs/design/cascade.md#r5`.

use super::probability::{PROPENSITY_MIN, Propensity};
use super::threshold::Bar;
use overdraft_units::Ratio;

/// Labels after which the sampling chance is 0.7 of its initial value.
const LABELS_SETTLED: u64 = 1_000;
/// Maximum sampling chance once a route serves drafts.
const CHANCE_MAX: Ratio = Ratio::percent(50);

/// How often answers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// Initial chance.
    pub start: Ratio,
    /// Minimum chance; never below one in a hundred.
    pub floor: Ratio,
    /// Added chance where the score is near the threshold.
    pub near: Ratio,
    /// The distance from the threshold that counts as near.
    pub band: Ratio,
    /// While too few labels are known to accept anything: the target answers anyway.
    pub learning: Ratio,
}

impl Default for Shadow {
    /// One in twenty, at least one in a hundred, 15 % more within 2 % of the bar, all while learning.
    fn default() -> Self {
        Self {
            start: Ratio::percent(5),
            floor: Ratio::percent(1),
            near: Ratio::percent(15),
            band: Ratio::percent(2),
            learning: Ratio::WHOLE,
        }
    }
}

/// Whether an answer is checked, and how likely that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Whether it is.
    pub checked: bool,
    /// How likely that was.
    pub propensity: Propensity,
    /// The least that chance could have been for any answer at this time.
    pub least: Propensity,
}

impl Shadow {
    /// Draws for an answer of that score before that bar, after so many labels, with `drawn`, a number
    /// drawn evenly from all 64-bit numbers.
    pub fn draw(&self, labels: u64, score: Ratio, bar: Bar, drawn: u64) -> Draw {
        let least = self.least(labels, bar);
        let near = match bar {
            Bar::At(at) if score.apart(at) <= self.band => self.near,
            _ => Ratio::NONE,
        };
        let chance = least.chance().plus(near).min(CHANCE_MAX.max(least.chance()));
        let propensity = Propensity::new(chance);
        Draw { checked: propensity.chance().happens(drawn), propensity, least }
    }

    /// The chance of an answer that is not near the bar.
    pub fn least(&self, labels: u64, bar: Bar) -> Propensity {
        if let Bar::Learning { .. } = bar {
            return Propensity::new(self.learning);
        }
        // The square root: the spread of what is learnt falls no faster than that.
        let start = u128::from(self.start.get()) * u128::from(self.start.get());
        let settled = u128::from(LABELS_SETTLED);
        let square = start * settled / (settled + u128::from(labels));
        let chance = u32::try_from(square.isqrt()).unwrap_or(u32::MAX);
        let floor = self.floor.max(PROPENSITY_MIN);
        Propensity::new(Ratio::millionths(chance).max(floor))
    }
}
