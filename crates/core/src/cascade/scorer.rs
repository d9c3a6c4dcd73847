//! Draft classifier: the probability that the draft's answer is not worse than the target's.
//!
//! One logistic model predicts from the features how likely the draft is worse, another how likely
//! it is better; from 512 labels on a random forest predicts both as well, and the mean of the two
//! counts. These rank drafts by log odds, and an isotonic curve calibrates the odds into
//! probabilities. All are fitted to the last four thousand labels. Before any label the probability
//! is one half. See `docs/design/cascade.md#r3`.

use alloc::vec::Vec;
use overdraft_units::Ratio;

use super::class::Class;
use super::features::{FEATURES, FEATURES_FIRST, Features};
use super::fixed_point::{BITS, ONE, chance, log_odds, logistic};
use super::forest::{Forest, Shares};
use super::isotonic::{Pool, pool};
use super::logistic::Logistic;
use super::snapshot::{PartsError, Reader, number, write};

/// The outcome of comparing the draft's answer with the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// The draft's answer is not worse, and not known to be better.
    AsGood,
    /// It is worse.
    Worse,
    /// It is better: right where the target is wrong.
    Better,
}

impl Label {
    /// Its number in a saved state.
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Worse => 0,
            Self::AsGood => 1,
            Self::Better => 2,
        }
    }

    /// The label of that number.
    pub(super) const fn of(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Worse),
            1 => Some(Self::AsGood),
            2 => Some(Self::Better),
            _ => None,
        }
    }
}

/// Maximum labels remembered; the latest are kept.
pub const EXAMPLES_MAX: usize = 4_096;
/// Minimum new labels before model and curve are fitted again.
const REDRAWN_EVERY_MIN: usize = 16;
/// Share of new labels, as one part in this many, at which the fit is repeated, so that the
/// amortised cost per label is constant.
const REDRAWN_PART: usize = 32;
/// Minimum labels per point of the calibration curve: fewer cannot resolve one in a hundred.
const POINT_MIN: usize = 16;
/// Drafts that were better of those remembered, before anything is made of them.
const BETTER_MIN: usize = 16;
/// The curve's share in a score is this much less than all; the rest is the model's, so that no two
/// drafts of different odds score alike.
const MODEL_SHARE_LOG2: u32 = 6;

/// The version of a written state that says first which labels it was fitted to.
const FITTED_SINCE: i64 = 4;

/// A draft that was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Example {
    pub(super) features: Features,
    pub(super) class: Class,
    pub(super) label: Label,
}

/// Which labels the last fit was made from: those remembered then, but for what the next labels take the place of. So
/// they are all remembered until the next fit, and what is not written can be made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fitted {
    /// Labels learnt by then.
    learnt: u64,
    /// Labels remembered then.
    held: usize,
    /// Labels until the next.
    every: usize,
}

/// A point of the curve: log odds, and what they come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    odds: i64,
    value: i64,
}

/// From features to a chance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scorer {
    /// How likely the draft is not worse.
    model: Logistic,
    /// How likely it is better; nothing where too few were.
    better: Option<Logistic>,
    /// Both, as a forest has it; nothing while there are few labels.
    forest: Option<Forest>,
    /// What all were fitted to.
    fitted: Fitted,
    /// A ring, once it is full.
    examples: Vec<Example>,
    curve: Vec<Point>,
    learnt: u64,
}

impl Scorer {
    /// One that knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The chance that a draft like that is not worse than the target.
    pub fn score(&self, features: &Features, class: Class) -> Ratio {
        let odds = self.odds(features, class);
        let model = logistic(odds);
        let Some(curve) = along(&self.curve, odds) else { return chance(model) };
        chance(curve + ((model - curve) >> MODEL_SHARE_LOG2))
    }

    fn odds(&self, features: &Features, class: Class) -> i64 {
        let forest = self.forest.as_ref().map(|forest| forest.shares(features));
        self.odds_beside(features, class, forest)
    }

    /// The log odds by which drafts are put in order: that a draft is not worse, where of the chance `w` that it is
    /// only the part `w / (w + b)` counts if it is better with the chance `b`. So a draft that is better as often as
    /// worse costs half as much, and a sure loss is never made good. `forest` is what the forest says.
    fn odds_beside(&self, features: &Features, class: Class, forest: Option<Shares>) -> i64 {
        let odds = self.model.odds(features, class);
        let better = self.better.as_ref().map(|better| better.odds(features, class));
        if better.is_none() && forest.is_none() {
            return odds;
        }
        let models = Shares { worse: logistic(-odds), better: better.map_or(0, logistic) };
        let both = forest.map_or(models, |forest| models.between(forest));
        let worse = both.worse.max(1);
        let differs = worse + both.better;
        log_odds(ONE - (worse * worse / differs).max(1))
    }

    /// Learns what a draft was worth.
    pub fn learn(&mut self, features: &Features, class: Class, label: Label) {
        self.remember(Example { features: *features, class, label });
        self.learnt += 1;
        let every = (self.examples.len() / REDRAWN_PART).max(REDRAWN_EVERY_MIN);
        if every <= self.fitted.since(self.learnt) {
            self.fitted = Fitted { learnt: self.learnt, held: self.examples.len(), every };
            self.fit();
            self.redraw();
        }
    }

    fn remember(&mut self, example: Example) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example);
        } else {
            let place = self.learnt % u64::try_from(EXAMPLES_MAX).unwrap_or(1);
            self.examples[usize::try_from(place).unwrap_or(0)] = example;
        }
    }

    fn fit(&mut self) {
        self.model.fit(&self.examples, |label| label != Label::Worse);
        let is_better = |label| label == Label::Better;
        let better = self.examples.iter().filter(|one| is_better(one.label)).count();
        self.better = (BETTER_MIN <= better).then(|| {
            let mut model = self.better.take().unwrap_or_default();
            model.fit(&self.examples, is_better);
            model
        });
    }

    /// The forest of the last fit, and what it says of each label without the trees that grew from it.
    fn grow(&self) -> Option<(Forest, Vec<Shares>)> {
        let places = 0..self.examples.len();
        let known: Vec<usize> = places.filter(|place| self.fitted.knew(*place)).collect();
        let label = |label| match label {
            Label::Better if self.better.is_none() => Label::AsGood,
            label => label,
        };
        Forest::grow(self.examples.iter().map(|one| (&one.features, label(one.label))), &known)
    }

    /// Draws the curve through all that is remembered, by the models of now. A tree knows the labels that it grew from
    /// by heart, and is not asked about them.
    fn redraw(&mut self) {
        let (forest, said) = self.grow().unzip();
        self.forest = forest;
        let said = said.unwrap_or_default();
        let place = |(number, one): (usize, &Example)| {
            let odds = self.odds_beside(&one.features, one.class, said.get(number).copied());
            (odds, one.label != Label::Worse)
        };
        let mut placed: Vec<(i64, bool)> = self.examples.iter().enumerate().map(place).collect();
        placed.sort_unstable();
        let points = placed.chunks(POINT_MIN).map(|chunk| {
            let each = chunk.iter().map(|&(odds, good)| Pool::new(odds, u64::from(good), 1));
            each.reduce(Pool::with).unwrap_or_default()
        });
        let pools = pool(points);
        // Nothing is certain after so few: each pool counts as if it had seen one more of each kind. That
        // may break the order again, so it is pooled once more.
        let doubted =
            pools.into_iter().map(|one| Pool { sum: one.sum + 1, weight: one.weight + 2, ..one });
        self.curve = pool(doubted).iter().map(point).collect();
    }

    /// Writes its state behind what is there.
    pub(super) fn write(&self, row: &mut Vec<i64>) {
        write(row, &[i64::try_from(self.learnt).unwrap_or(i64::MAX), number(self.examples.len())]);
        let Fitted { learnt, held, every } = self.fitted;
        write(row, &[i64::try_from(learnt).unwrap_or(i64::MAX), number(held), number(every)]);
        self.model.write(row);
        row.push(i64::from(self.better.is_some()));
        if let Some(better) = &self.better {
            better.write(row);
        }
        for example in &self.examples {
            row.push(example.class.get().cast_signed());
            row.push(example.label.number());
            example.features.write(row);
        }
        row.push(number(self.curve.len()));
        for point in &self.curve {
            write(row, &[point.odds, point.value]);
        }
    }

    pub(super) fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let learnt = row.natural()?;
        let examples = row.count(EXAMPLES_MAX)?;
        let fitted = if row.version() < FITTED_SINCE {
            Fitted::default()
        } else {
            Fitted::read(learnt, row)?
        };
        let model = Logistic::read(row)?;
        let has_better = row.version() != 1 && row.within(0, 1)? == 1;
        let better = has_better.then(|| Logistic::read(row)).transpose()?;
        let examples = (0..examples).map(|_| example(row)).collect::<Result<_, _>>()?;
        let points = row.count(EXAMPLES_MAX)?;
        let curve = (0..points)
            .map(|_| Ok(Point { odds: row.next()?, value: row.within(0, ONE)? }))
            .collect::<Result<_, PartsError>>()?;
        let read = Self { model, better, forest: None, fitted, examples, curve, learnt };
        let forest = read.grow().map(|(forest, _)| forest).filter(|_| 0 < fitted.every);
        Ok(Self { forest, ..read })
    }
}

impl Fitted {
    /// Labels learnt since.
    fn since(&self, learnt: u64) -> usize {
        usize::try_from(learnt.saturating_sub(self.learnt)).unwrap_or(usize::MAX)
    }

    /// Whether the label at this place was there, and will be until the next fit.
    fn knew(&self, place: usize) -> bool {
        let next = usize::try_from(self.learnt % EXAMPLES_MAX as u64).unwrap_or(0);
        // Those that find no free place take the oldest ones', which are the next in the ring.
        let overwritten = (self.held + self.every).saturating_sub(EXAMPLES_MAX);
        let first = (next + self.every - overwritten) % EXAMPLES_MAX;
        let ahead = (place + EXAMPLES_MAX - first) % EXAMPLES_MAX;
        place < self.held && overwritten <= ahead
    }

    fn read(learnt: u64, row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let most = i64::try_from(learnt).unwrap_or(i64::MAX);
        let then = row.within(0, most)?.cast_unsigned();
        let (held, every) = (row.count(EXAMPLES_MAX)?, row.count(EXAMPLES_MAX)?);
        Ok(Self { learnt: then, held, every })
    }
}

fn example(row: &mut Reader<'_>) -> Result<Example, PartsError> {
    let class = Class::new(row.next()?.cast_unsigned());
    let (known, most) = if row.version() == 1 { (FEATURES_FIRST, 1) } else { (FEATURES, 2) };
    let label = Label::of(row.within(0, most)?).unwrap_or(Label::Worse);
    Ok(Example { features: Features::read_first(row, known)?, class, label })
}

fn point(pool: &Pool) -> Point {
    let value = (i128::from(pool.sum) << BITS) / i128::from(pool.weight.max(1));
    Point { odds: pool.middle(), value: i64::try_from(value).unwrap_or(ONE).clamp(0, ONE) }
}

/// Straight between points, level beyond them; nothing where there is none.
fn along(curve: &[Point], odds: i64) -> Option<i64> {
    let behind = curve.partition_point(|point| point.odds < odds);
    let after = curve.get(behind);
    let before = behind.checked_sub(1).and_then(|place| curve.get(place));
    match (before, after) {
        (Some(before), Some(after)) => {
            let (width, way) = (after.odds - before.odds, odds - before.odds);
            let rise = i128::from(after.value - before.value) * i128::from(way);
            let rise = rise.checked_div(i128::from(width)).unwrap_or(0);
            Some(before.value + i64::try_from(rise).unwrap_or(0))
        }
        (Some(one), None) | (None, Some(one)) => Some(one.value),
        (None, None) => None,
    }
}
