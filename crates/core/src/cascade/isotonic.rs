//! Isotonic regression: calibrates scores into probabilities (pool adjacent violators).
//!
//! Pool adjacent violators (Ayer et al. 1955) finds the non-decreasing curve nearest to the labels
//! in least squares, in one pass over sorted examples. It corrects whatever shape the logistic
//! model gets wrong, and assumes nothing but monotonicity.

use alloc::vec::Vec;

/// Neighbours that share a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pool {
    /// Sum of the members' scores.
    pub(super) place: i128,
    /// Sum of their labels, each times its weight.
    pub(super) sum: u64,
    /// Sum of their weights.
    pub(super) weight: u64,
    /// Number of members.
    pub(super) members: u32,
}

impl Pool {
    /// A pool of one example: its score, its label and its weight.
    pub(super) const fn new(place: i64, label: u64, weight: u64) -> Self {
        Self { place: place as i128, sum: label * weight, weight, members: 1 }
    }

    /// Merges two pools.
    #[must_use]
    pub(super) const fn with(self, other: Self) -> Self {
        Self {
            place: self.place + other.place,
            sum: self.sum + other.sum,
            weight: self.weight + other.weight,
            members: self.members + other.members,
        }
    }

    /// The mean score of its members.
    pub(super) fn middle(&self) -> i64 {
        let middle = self.place.checked_div(i128::from(self.members)).unwrap_or(0);
        i64::try_from(middle).unwrap_or(0)
    }

    /// Whether its mean label is above that of `other`.
    fn above(&self, other: &Self) -> bool {
        u128::from(other.sum) * u128::from(self.weight)
            < u128::from(self.sum) * u128::from(other.weight)
    }
}

/// The pools of the non-decreasing curve through `examples`, which are sorted by place.
pub(super) fn pool(examples: impl IntoIterator<Item = Pool>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for mut next in examples {
        while let Some(last) = pools.pop_if(|last| last.above(&next)) {
            next = last.with(next);
        }
        pools.push(next);
    }
    pools
}
