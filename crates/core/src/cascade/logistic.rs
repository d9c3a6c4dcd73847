//! In which direction does each feature point?
//!
//! Logistic regression, one label at a time: `AdaGrad` steps with a little decay, so that no weight grows
//! without end and a feature that stopped telling anything is forgotten. Each class has an intercept of its
//! own. Labels are not weighted: which labels are known depends on the score, and what a score means
//! does not depend on which labels are known.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::class::{CLASSES_MAX, Class};
use super::features::{FEATURES, Features};
use super::fixed::{BITS, ONE, logistic, times};
use super::parts::{PartsError, Reader, number, write};

/// Log odds beyond these are cut.
const ODDS_MAX: i64 = 16 * ONE;
/// No weight is larger.
const WEIGHT_MAX: i64 = 16 * ONE;
/// The length of a step before it is divided by the slopes seen so far.
const STEP: i64 = ONE / 4;
/// Each step takes a 2,048th of a weight away, and a 1,024th of the slopes that slow it.
const DECAY_LOG2: u32 = 11;
const FADE_LOG2: u32 = 10;
/// An intercept of a class moves so much slower than the rest: it must be worth it.
const CLASS_STEP_LOG2: u32 = 1;
/// Bits that are put away before a slope is squared, to keep the sum within eight bytes.
const SQUARE_BITS: u32 = BITS - 16;
/// Features have twelve bits of fraction.
const FEATURE_BITS: u32 = 12;

/// One weight and the slopes that it has seen, squared and summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    value: i64,
    slopes: i64,
}

impl Weight {
    /// Goes down the slope.
    fn descend(&mut self, slope: i64, step: i64) {
        let coarse = slope >> SQUARE_BITS;
        self.slopes -= self.slopes >> FADE_LOG2;
        self.slopes = self.slopes.saturating_add(coarse * coarse).min(1 << 60);
        // The root of the slopes is a slope again, with sixteen bits of fraction.
        let root = self.slopes.isqrt().max(1 << 12);
        self.value -= self.value >> DECAY_LOG2;
        let move_by = (i128::from(step) * i128::from(coarse)) / i128::from(root);
        let moved = self.value - i64::try_from(move_by).unwrap_or(0);
        self.value = moved.clamp(-WEIGHT_MAX, WEIGHT_MAX);
    }
}

/// The weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Logistic {
    weights: [Weight; FEATURES],
    classes: BTreeMap<Class, Weight>,
}

impl Logistic {
    /// The log odds that the draft is as good.
    pub(super) fn odds(&self, features: &Features, class: Class) -> i64 {
        let own = self.classes.get(&class).map_or(0, |own| own.value);
        let each = self.weights.iter().zip(features.0);
        let sum: i64 = each.map(|(weight, x)| (weight.value * i64::from(x)) >> FEATURE_BITS).sum();
        (sum + own).clamp(-ODDS_MAX, ODDS_MAX)
    }

    /// Learns that a draft like that was as good (`good` is one) or worse (zero).
    pub(super) fn learn(&mut self, features: &Features, class: Class, good: bool) {
        let wanted = if good { ONE } else { 0 };
        let error = logistic(self.odds(features, class)) - wanted;
        for (weight, x) in self.weights.iter_mut().zip(features.0) {
            let x = i64::from(x) << (BITS - FEATURE_BITS);
            if x != 0 {
                weight.descend(times(error, x), STEP);
            }
        }
        let room = self.classes.len() < CLASSES_MAX;
        if room || self.classes.contains_key(&class) {
            self.classes.entry(class).or_default().descend(error, STEP >> CLASS_STEP_LOG2);
        }
    }

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        for weight in &self.weights {
            write(row, &[weight.value, weight.slopes]);
        }
        row.push(number(self.classes.len()));
        for (class, weight) in &self.classes {
            write(row, &[class.get().cast_signed(), weight.value, weight.slopes]);
        }
    }

    pub(super) fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let mut read = Self::default();
        for weight in &mut read.weights {
            *weight = weight_of(row)?;
        }
        for _ in 0..row.count(CLASSES_MAX)? {
            let class = Class::new(row.next()?.cast_unsigned());
            read.classes.insert(class, weight_of(row)?);
        }
        Ok(read)
    }
}

fn weight_of(row: &mut Reader<'_>) -> Result<Weight, PartsError> {
    Ok(Weight { value: row.within(-WEIGHT_MAX, WEIGHT_MAX)?, slopes: row.within(0, 1 << 60)? })
}
