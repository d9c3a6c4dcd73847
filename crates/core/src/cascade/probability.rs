//! Fixed-point log probabilities, inverse propensity weights.
//!
//! Log probabilities are millionths of a nat. With integers, every gateway that saw
//! the same labels decides alike, on every machine.

use overdraft_units::Ratio;

/// The number of millionths in one.
pub(super) const WHOLE: u32 = Ratio::WHOLE.get();

/// The logarithm of a probability, in millionths of a nat: zero or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogProb(i32);

/// What is less likely than this many millionths of a nat is as unlikely.
const SURPRISE_MAX: u32 = 64_000_000;
/// The same, for arithmetic with signs.
const LEAST: i64 = -64_000_000;

impl LogProb {
    /// The smallest non-zero chance.
    pub const LEAST: Self = Self(-64_000_000);

    /// So many millionths of a nat; what is above zero, as rounding makes it, is zero.
    pub fn micronats(micronats: i64) -> Self {
        Self(i32::try_from(micronats.clamp(LEAST, 0)).unwrap_or(0))
    }

    /// From what an engine reports: natural logarithm, as a float. What is no number is the least.
    pub fn from_nats(nats: f64) -> Self {
        if nats.is_nan() { Self::LEAST } else { Self::micronats(millionths(nats)) }
    }

    /// How surprising that is, in nats.
    pub const fn surprise(self) -> Nats {
        Nats(self.0.unsigned_abs())
    }

    /// Millionths of a nat, zero or less.
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// A distance between log probabilities, or an entropy: millionths of a nat, zero or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nats(u32);

impl Nats {
    /// So many millionths of a nat, at most 64 nats.
    pub const fn micronats(micronats: u32) -> Self {
        Self(if micronats > SURPRISE_MAX { SURPRISE_MAX } else { micronats })
    }

    /// From what an engine reports or what was reckoned of it; no number and less than nothing are 0.
    pub fn from_nats(nats: f64) -> Self {
        Self::micronats(u32::try_from(millionths(nats).max(0)).unwrap_or(SURPRISE_MAX))
    }

    /// How far the likeliest is from the one after it.
    pub fn margin(first: LogProb, second: LogProb) -> Self {
        Self::micronats(first.0.abs_diff(second.0))
    }

    /// Millionths of a nat.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The one place where a float becomes a whole number; none for what is no number.
#[expect(clippy::cast_possible_truncation, reason = "cut to what fits before")]
fn millionths(nats: f64) -> i64 {
    let limit = f64::from(SURPRISE_MAX);
    (nats * 1e6).clamp(-limit, limit) as i64
}

/// With which chance a request's label came to be known; never less than one in a hundred.
///
/// One that had a chance of 5 % stands for twenty requests (inverse propensity weights). The floor
/// bounds what a single label can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Propensity(Ratio);

/// Minimum sampling chance of a label, which bounds its inverse propensity weight.
pub const PROPENSITY_MIN: Ratio = Ratio::percent(1);

/// What a label that was certain to be known weighs.
pub(super) const WEIGHT_ONE: u64 = 1_000;

impl Propensity {
    /// The label is always known.
    pub const CERTAIN: Self = Self(Ratio::WHOLE);

    /// That chance, or the least that is allowed.
    pub fn new(chance: Ratio) -> Self {
        Self(chance.max(PROPENSITY_MIN))
    }

    /// The chance.
    pub const fn chance(self) -> Ratio {
        self.0
    }

    /// How many requests it stands for, in thousandths; at most a hundred.
    pub fn weight_thousandths(self) -> u64 {
        u64::from(WHOLE) * WEIGHT_ONE / u64::from(self.0.get().max(1))
    }
}
