//! Logistic regression: ridge-regularised, fitted to the remembered labels by Newton's method.
//!
//! Each fit starts from the last one (warm start), so two Newton steps are enough. Squares and
//! products of the ten most informative features are features too: a draft that knows nothing at
//! all is often no worse than a target that does not know either. Each class has an intercept of
//! its own. Labels are not weighted: which labels are known depends on the score, and what a score
//! means does not depend on which labels are known.
//!
//! Rejected: one gradient step a label. With some hundred labels it stays so far from the best fit that a plain
//! threshold on the mean log probability does better.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::class::{CLASSES_MAX, Class};
use super::features::{
    DIGITS, ENTROPY, FEATURES, FEATURES_FIRST, FOURTH_WORST, Features, LENGTH, MEAN, MEDIAN,
    PROMPT, THINNEST, WORST, WORST_DIGIT,
};
use super::fixed_point::{BITS, ONE, logistic, times};
use super::scorer::{Example, Label};
use super::snapshot::{PartsError, Reader, number, write};

/// Features whose squares and products are features too: the meaning of a surprisal depends on its
/// position and on the answer's length and share of digits.
const MULTIPLIED: [usize; 10] =
    [MEDIAN, MEAN, WORST, ENTROPY, LENGTH, PROMPT, WORST_DIGIT, DIGITS, THINNEST, FOURTH_WORST];
/// How many pairs those make.
const PAIRS_COUNT: usize = MULTIPLIED.len() * (MULTIPLIED.len() + 1) / 2;
/// The pairs of states up to the third version, which come first.
const PAIRS_FIRST: [(usize, usize); 8] = [
    (MEAN, MEAN),
    (WORST, WORST),
    (ENTROPY, ENTROPY),
    (LENGTH, LENGTH),
    (MEAN, LENGTH),
    (WORST, LENGTH),
    (MEAN, WORST),
    (MEDIAN, WORST),
];
/// The first version of a saved state with all pairs.
const PAIRS_SINCE: i64 = 4;
static PAIRS: [(usize, usize); PAIRS_COUNT] = pairs();
/// Number of terms: features and their products.
const TERMS: usize = FEATURES + PAIRS_COUNT;

/// Log odds beyond these are cut.
const ODDS_MAX: i64 = 16 * ONE;
/// No weight is larger.
const WEIGHT_MAX: i64 = 16 * ONE;
/// No step moves a weight further: Newton's overshoots where the labels leave no doubt.
const STEP_MAX: i64 = ONE;
/// Steps of a fit.
const STEPS: usize = 2;
/// Ridge penalty of a weight, in labels.
const RIDGE: i64 = 10;
/// Features have twelve bits of fraction.
const FEATURE_BITS: u32 = 12;
/// Fraction bits of the gradient sums.
const SUM_BITS: u32 = BITS + FEATURE_BITS;
/// Fraction bits of the factors of the elimination.
const FACTOR_BITS: u32 = 32;
/// Minimum curvature of a label, a thousandth: certain predictions must not make the Hessian
/// singular.
const DOUBT_MIN: i64 = ONE >> 10;

type Terms = [i64; TERMS];
type Matrix = Vec<[i128; TERMS]>;

/// The weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logistic {
    weights: Terms,
    classes: BTreeMap<Class, i64>,
}

/// A label as it is fitted to.
struct Row {
    terms: Terms,
    class: Class,
    holds: bool,
}

/// What the labels of one class say about its intercept.
#[derive(Clone, Copy, Default)]
struct Pull {
    slope: i64,
    bend: i64,
}

impl Default for Logistic {
    fn default() -> Self {
        Self { weights: [0; TERMS], classes: BTreeMap::new() }
    }
}

impl Logistic {
    /// The log odds of what was fitted to.
    pub(super) fn odds(&self, features: &Features, class: Class) -> i64 {
        self.odds_of(&terms(features), class)
    }

    fn odds_of(&self, terms: &Terms, class: Class) -> i64 {
        let own = self.classes.get(&class).copied().unwrap_or(0);
        let each = self.weights.iter().zip(terms);
        let sum: i64 = each.map(|(weight, x)| (weight * x) >> FEATURE_BITS).sum();
        (sum + own).clamp(-ODDS_MAX, ODDS_MAX)
    }

    /// Fits the weights to which of the remembered labels are such.
    pub(super) fn fit(&mut self, examples: &[Example], such: fn(Label) -> bool) {
        let row = |one: &Example| Row {
            terms: terms(&one.features),
            class: one.class,
            holds: such(one.label),
        };
        let rows: Vec<Row> = examples.iter().map(row).collect();
        for _ in 0..STEPS {
            self.step(&rows);
            self.step_classes(&rows);
        }
    }

    fn step(&mut self, rows: &[Row]) {
        let mut slope: Terms = self.weights.map(|weight| RIDGE * (weight << FEATURE_BITS));
        let mut bends = vec![[0_i64; TERMS]; TERMS];
        for row in rows {
            let (error, doubt) = self.error(row);
            for (place, x) in row.terms.iter().enumerate() {
                slope[place] += error * x;
                let part = (doubt * x) >> FEATURE_BITS;
                for (bend, other) in bends[place].iter_mut().zip(row.terms).take(place + 1) {
                    *bend += part * other;
                }
            }
        }
        let mut matrix: Matrix = vec![[0; TERMS]; TERMS];
        for place in 0..TERMS {
            for other in 0..=place {
                matrix[place][other] = bends[place][other].into();
                matrix[other][place] = bends[place][other].into();
            }
            matrix[place][place] += i128::from(RIDGE) << SUM_BITS;
        }
        let moves = solved(matrix, slope.map(i128::from));
        for (weight, by) in self.weights.iter_mut().zip(moves) {
            let by = by.clamp(-STEP_MAX, STEP_MAX);
            *weight = (*weight - by).clamp(-WEIGHT_MAX, WEIGHT_MAX);
        }
    }

    /// Moves each class by what its own labels say.
    fn step_classes(&mut self, rows: &[Row]) {
        let mut pulls: BTreeMap<Class, Pull> = BTreeMap::new();
        for row in rows {
            let (error, doubt) = self.error(row);
            let known = pulls.len() < CLASSES_MAX || pulls.contains_key(&row.class);
            if known {
                let pull = pulls.entry(row.class).or_default();
                pull.slope += error;
                pull.bend += doubt;
            }
        }
        self.classes.retain(|class, _| pulls.contains_key(class));
        for (class, pull) in pulls {
            let own = self.classes.entry(class).or_default();
            let slope = pull.slope + RIDGE * *own;
            let by = (i128::from(slope) << BITS) / i128::from(pull.bend + RIDGE * ONE);
            let by = i64::try_from(by).unwrap_or(0).clamp(-STEP_MAX, STEP_MAX);
            *own = (*own - by).clamp(-WEIGHT_MAX, WEIGHT_MAX);
        }
    }

    /// By how much the chance is off, and how much in doubt it is.
    fn error(&self, row: &Row) -> (i64, i64) {
        let chance = logistic(self.odds_of(&row.terms, row.class));
        let wanted = if row.holds { ONE } else { 0 };
        (chance - wanted, times(chance, ONE - chance).max(DOUBT_MIN))
    }

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        row.extend(self.weights);
        row.push(number(self.classes.len()));
        for (class, own) in &self.classes {
            write(row, &[class.get().cast_signed(), *own]);
        }
    }

    pub(super) fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let mut read = Self::default();
        let known = if row.version() == 1 { FEATURES_FIRST } else { FEATURES };
        let pairs = if row.version() < PAIRS_SINCE { PAIRS_FIRST.len() } else { PAIRS_COUNT };
        let (plain, products) = read.weights.split_at_mut(FEATURES);
        for weight in plain.iter_mut().take(known).chain(products.iter_mut().take(pairs)) {
            *weight = row.within(-WEIGHT_MAX, WEIGHT_MAX)?;
        }
        for _ in 0..row.count(CLASSES_MAX)? {
            let class = Class::new(row.next()?.cast_unsigned());
            read.classes.insert(class, row.within(-WEIGHT_MAX, WEIGHT_MAX)?);
        }
        Ok(read)
    }
}

/// The pairs of states of before, and then all others.
const fn pairs() -> [(usize, usize); PAIRS_COUNT] {
    let mut pairs = [(0, 0); PAIRS_COUNT];
    let mut count = 0;
    while count < PAIRS_FIRST.len() {
        pairs[count] = PAIRS_FIRST[count];
        count += 1;
    }
    let mut one = 0;
    while one < MULTIPLIED.len() {
        let mut other = one;
        while other < MULTIPLIED.len() {
            let pair = (MULTIPLIED[one], MULTIPLIED[other]);
            let mut place = 0;
            while place < count && (pairs[place].0 != pair.0 || pairs[place].1 != pair.1) {
                place += 1;
            }
            if place == count {
                pairs[count] = pair;
                count += 1;
            }
            other += 1;
        }
        one += 1;
    }
    pairs
}

/// The features and the products of some.
fn terms(features: &Features) -> Terms {
    let mut terms = [0; TERMS];
    let (plain, products) = terms.split_at_mut(FEATURES);
    for (term, x) in plain.iter_mut().zip(features.0) {
        *term = x.into();
    }
    for (term, &(one, other)) in products.iter_mut().zip(&PAIRS) {
        let product = (plain[one] * plain[other]) >> FEATURE_BITS;
        *term = product.clamp(i16::MIN.into(), i16::MAX.into());
    }
    terms
}

/// What `matrix` makes `right` of, by Gauss's elimination; `matrix` is symmetric and its diagonal outweighs rounding,
/// for the ridge is in it.
fn solved(mut matrix: Matrix, mut right: [i128; TERMS]) -> Terms {
    for pivot in 0..TERMS {
        let (above, below) = matrix.split_at_mut(pivot + 1);
        let head = &above[pivot];
        for (row, line) in below.iter_mut().enumerate() {
            let factor = (line[pivot] << FACTOR_BITS) / head[pivot].max(1);
            for (cell, top) in line.iter_mut().zip(head).skip(pivot) {
                *cell -= (factor * top) >> FACTOR_BITS;
            }
            let top = right[pivot];
            right[pivot + 1 + row] -= (factor * top) >> FACTOR_BITS;
        }
    }
    let mut found = [0_i64; TERMS];
    for pivot in (0..TERMS).rev() {
        let known = matrix[pivot].iter().zip(found).skip(pivot + 1);
        let sum: i128 = known.map(|(cell, value)| cell * i128::from(value)).sum();
        let left = (right[pivot] << BITS) - sum;
        let value = left / matrix[pivot][pivot].max(1);
        let most = i128::from(ODDS_MAX);
        found[pivot] = i64::try_from(value.clamp(-most, most)).unwrap_or(0);
    }
    found
}
