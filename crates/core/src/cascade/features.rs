//! Feature vector: the numbers that the cascade's classifier sees of a draft.
//!
//! Each feature lies between -8 and 8 and is centred by a constant so that a typical draft is near
//! zero: means and spreads are not learnt, so two gateways agree from the first request on.
//! Surprisal spans four orders of magnitude and enters by its logarithm.

use alloc::vec::Vec;

use super::class::{Bound, Script};
use super::evidence::{Evidence, FIRST_TOKENS, Finish};
use super::probability::Nats;
use super::snapshot::{PartsError, Reader};

/// The number of features.
pub const FEATURES: usize = 20;
/// The number of features in the first version of a saved state; later ones were appended.
pub(super) const FEATURES_FIRST: usize = 16;

/// Indices of features whose products are features too.
pub(super) const MEDIAN: usize = 3;
/// See [`MEDIAN`].
pub(super) const MEAN: usize = 4;
/// See [`MEDIAN`].
pub(super) const WORST: usize = 5;
/// See [`MEDIAN`].
pub(super) const ENTROPY: usize = 9;
/// See [`MEDIAN`].
pub(super) const LENGTH: usize = 10;

/// See [`MEDIAN`].
pub(super) const PROMPT: usize = 12;
/// See [`MEDIAN`].
pub(super) const WORST_DIGIT: usize = 16;
/// See [`MEDIAN`].
pub(super) const DIGITS: usize = 17;
/// See [`MEDIAN`].
pub(super) const THINNEST: usize = 18;
/// See [`MEDIAN`].
pub(super) const FOURTH_WORST: usize = 19;

/// One in the unit of features.
pub(super) const UNIT: i32 = 1 << 12;
const UNIT_LOG2: u32 = 12;

/// No feature is further from zero.
const LIMIT: i32 = 8 * UNIT - 1;

/// What is weighed of one draft, or of its beginning; each in 4,096ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub(super) [i16; FEATURES]);

impl Features {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let tokens = u64::from(evidence.tokens);
        let first = u64::from(evidence.tokens.min(FIRST_TOKENS));
        let flag = |holds: bool| if holds { UNIT } else { 0 };
        let traits = evidence.traits;
        let entropy = (evidence.entropy.0 > 0)
            .then(|| surprise(mean(evidence.entropy.1, u64::from(evidence.entropy.0))));
        let thin = share(evidence.margins.1, evidence.margins.0);
        let all = [
            UNIT,
            surprise(evidence.surprise_exceeded_by(5)),
            surprise(evidence.surprise_exceeded_by(10)),
            surprise(evidence.surprise_exceeded_by(50)),
            surprise(mean(evidence.sum, tokens)),
            surprise(evidence.worst()),
            surprise(mean(evidence.first, first)),
            thin,
            flag(0 < evidence.margins.1),
            entropy.unwrap_or(0),
            (logarithm(tokens + 1) - 5 * UNIT) / 2,
            flag(evidence.finish == Finish::Length),
            (logarithm(u64::from(traits.prompt.get()) + 1) - 7 * UNIT) / 4,
            flag(traits.bound == Bound::Schema) - flag(traits.bound == Bound::Tools),
            flag(traits.script == Script::Other),
            flag(traits.script == Script::Code),
            surprise(evidence.digits.1),
            share(evidence.digits.0, evidence.tokens),
            evidence.thinnest.map_or(0, surprise),
            surprise(evidence.fourth_worst()),
        ];
        Self(all.map(|one| {
            i16::try_from(one.clamp(-LIMIT, LIMIT)).expect("within eight units of 4,096")
        }))
    }

    /// Writes them, four to a number.
    pub(super) fn write(&self, row: &mut Vec<i64>) {
        for four in self.0.chunks_exact(4) {
            row.push(four.iter().fold(0, |all, one| (all << 16) | i64::from(one.cast_unsigned())));
        }
    }

    /// What was written of all of them.
    pub(super) fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        Self::read_first(row, FEATURES)
    }

    /// What was written of the first `known`; the others are zero, as if they were what they are of a typical draft.
    pub(super) fn read_first(row: &mut Reader<'_>, known: usize) -> Result<Self, PartsError> {
        let mut features = [0_i16; FEATURES];
        for four in features[..known].chunks_exact_mut(4) {
            let packed = row.next()?.cast_unsigned();
            for (place, one) in four.iter_mut().rev().enumerate() {
                let bits = (packed >> (16 * place)) & u64::from(u16::MAX);
                *one = u16::try_from(bits).unwrap_or(0).cast_signed();
            }
        }
        Ok(Self(features))
    }

    /// The numbers, in 4,096ths.
    pub const fn get(&self) -> &[i16; FEATURES] {
        &self.0
    }
}

/// The mean of a sum of surprises.
fn mean(sum: u64, count: u64) -> Nats {
    Nats::micronats(u32::try_from(sum / count.max(1)).unwrap_or(u32::MAX))
}

/// From a 4,000th of a nat to 64: 18 octaves, a third of a unit each, the middle at zero.
fn surprise(nats: Nats) -> i32 {
    (logarithm(u64::from(nats.get()) / 256 + 1) - 9 * UNIT) / 3
}

/// A share, from -1 to 1; zero where nothing is known.
fn share(part: u32, whole: u32) -> i32 {
    if whole == 0 {
        return 0;
    }
    let double = i64::from(part) * i64::from(2 * UNIT) / i64::from(whole);
    i32::try_from(double).unwrap_or(UNIT) - UNIT
}

/// To the base of two, in 4,096ths, straight between powers: never falls, and off by less than a tenth.
pub(super) fn logarithm(number: u64) -> i32 {
    let octave = number.max(1).ilog2();
    let base = 1_u64 << octave;
    let within = (u128::from(number.max(1) - base) << UNIT_LOG2) >> octave;
    let whole = u64::from(octave) << UNIT_LOG2;
    i32::try_from(whole).unwrap_or(LIMIT) + i32::try_from(within).unwrap_or(UNIT)
}
