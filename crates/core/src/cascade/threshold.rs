//! Acceptance threshold: conformal risk control keeps the cascade's loss within its target.
//!
//! Two parts. Conformal risk control over the last labels finds the lowest score at which the loss
//! is within a *level*; the level itself moves with every label by the observed loss (adaptive
//! conformal inference, weighted by inverse propensity). The first part places the threshold, the
//! second guarantees the bound for any sequence of labels: at level zero nothing is accepted.
//!
//! **Invariant:** the weighted loss of all labels exceeds the allowed share of their weight by at most
//! `loss / step + heaviest`, whatever the scores and labels were.
//! `docs/design/cascade.md#r4`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use overdraft_units::Ratio;

use super::class::{CLASSES_MAX, Class};
use super::probability::{Propensity, WEIGHT_ONE, WHOLE};
use super::quality::Estimate;
use super::scorer::Label;
use super::snapshot::{PartsError, Reader, number, signed};

/// Minimum loss that can be configured: the remembered labels cannot resolve less.
pub const LOSS_MIN: Ratio = Ratio::permille(2);
/// Maximum loss that can be configured: beyond it a gate is pointless.
pub const LOSS_MAX: Ratio = Ratio::percent(25);

/// Maximum labels remembered of all classes together, and of one.
const LABELS_MAX: usize = 2_048;
const CLASS_LABELS_MAX: usize = 256;
/// Weight of the common threshold in that of one class, in labels.
const POOL_LABELS: u64 = 128;
/// Minimum labels before anything is accepted, or twice as many as make one loss allowable.
const LEARNT_MIN: u64 = 128;
/// A label moves the level by its weight's 2,048th part.
const STEP_LOG2: u32 = 11;
/// Maximum level, as a multiple of the allowed loss.
const LEVEL_MAX: i64 = 2;
/// Billionths in a millionth.
const FINE: i64 = 1_000;
/// A score that no draft reaches.
const NOTHING: u32 = WHOLE + 1;

/// Whose answer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Choice {
    /// The draft's.
    Draft,
    /// The target's.
    Target,
}

/// What a draft's score must reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Too few labels are known to accept anything.
    Learning {
        /// So many are.
        labels: u64,
        /// So many must be.
        needed: u64,
    },
    /// No score is high enough: what was allowed is used up, or no cut holds it.
    Closed,
    /// This or more.
    At(Ratio),
}

impl Bar {
    /// What a score comes to before it.
    pub fn choose(self, score: Ratio) -> Choice {
        match self {
            Self::At(least) if least <= score => Choice::Draft,
            _ => Choice::Target,
        }
    }
}

/// A label and the decision that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// Of which requests it was one.
    pub class: Class,
    /// What the draft scored when it was judged.
    pub score: Ratio,
    /// Whose answer was given.
    pub served: Choice,
    /// What the draft was worth.
    pub label: Label,
    /// With which chance that came to be known.
    pub propensity: Propensity,
}

/// One label as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    score: u32,
    weight: u32,
    worse: bool,
    served: bool,
}

/// The labels of one class, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ledger {
    entries: Vec<Entry>,
    seen: u64,
    /// What may be lost from now on, in billionths.
    level: i64,
    cut: u32,
}

/// The thresholds of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The share of answers that may be worse than the target's for being the draft's.
    loss: Ratio,
    all: Ledger,
    classes: BTreeMap<Class, Ledger>,
}

impl Threshold {
    /// One that holds the loss, kept between [`LOSS_MIN`] and [`LOSS_MAX`], and accepts nothing yet.
    pub fn new(loss: Ratio) -> Self {
        let loss = loss.clamp(LOSS_MIN, LOSS_MAX);
        Self { loss, all: Ledger::new(loss), classes: BTreeMap::new() }
    }

    /// What a draft of that class must score.
    pub fn bar(&self, class: Class) -> Bar {
        let needed = self.needed();
        if self.all.seen < needed {
            return Bar::Learning { labels: self.all.seen, needed };
        }
        let own = self.classes.get(&class);
        if self.all.level <= 0 || own.is_some_and(|own| own.level <= 0) {
            return Bar::Closed;
        }
        let pooled = u64::from(self.all.cut);
        let cut = own.filter(|own| own.cut <= WHOLE).map_or(pooled, |own| {
            let labels = u64::try_from(own.entries.len()).unwrap_or(0);
            let sum = labels * u64::from(own.cut) + POOL_LABELS * pooled;
            sum.div_ceil(labels + POOL_LABELS)
        });
        match u32::try_from(cut) {
            Ok(cut) if cut <= WHOLE && self.all.cut <= WHOLE => Bar::At(Ratio::millionths(cut)),
            _ => Bar::Closed,
        }
    }

    /// Learns from a label; the level moves only for who was served by this threshold.
    pub fn learn(&mut self, lesson: &Lesson) {
        self.heed(lesson, Self::note_and_move);
    }

    /// Learns from a label of an answer that something else decided about.
    pub fn overhear(&mut self, lesson: &Lesson) {
        self.heed(lesson, Self::note_only);
    }

    /// How many labels it has seen.
    pub const fn seen(&self) -> u64 {
        self.all.seen
    }

    /// What is lost, as far as the remembered labels tell.
    pub fn estimate(&self) -> Estimate {
        let mut estimate = Estimate::default();
        for entry in &self.all.entries {
            estimate.note(u64::from(entry.weight), entry.worse && entry.served);
        }
        estimate
    }

    fn needed(&self) -> u64 {
        LEARNT_MIN.max(2 * u64::from(WHOLE) / u64::from(self.loss.get()))
    }

    fn heed(&mut self, lesson: &Lesson, how: fn(&mut Ledger, &Lesson, Ratio)) {
        how(&mut self.all, lesson, self.loss);
        self.all.remember(lesson, LABELS_MAX);
        self.all.cut = self.all.place();
        let room = self.classes.len() < CLASSES_MAX;
        if room || self.classes.contains_key(&lesson.class) {
            let own = self.classes.entry(lesson.class).or_insert_with(|| Ledger::new(self.loss));
            how(own, lesson, self.loss);
            own.remember(lesson, CLASS_LABELS_MAX);
            own.cut = own.place();
        }
    }

    fn note_and_move(ledger: &mut Ledger, lesson: &Lesson, loss: Ratio) {
        let lost = lesson.label == Label::Worse && lesson.served == Choice::Draft;
        let lost = if lost { i64::from(WHOLE) } else { 0 };
        let weight = signed(lesson.propensity.weight_thousandths());
        let allowed = i64::from(loss.get());
        let moved = ledger.level + ((weight * (allowed - lost)) >> STEP_LOG2);
        ledger.level = moved.min(LEVEL_MAX * allowed * FINE);
    }

    const fn note_only(_: &mut Ledger, _: &Lesson, _: Ratio) {}

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        self.all.write(row);
        row.push(number(self.classes.len()));
        for (class, ledger) in &self.classes {
            row.push(class.get().cast_signed());
            ledger.write(row);
        }
    }

    /// What was written, for the loss that is allowed now.
    pub(super) fn read(loss: Ratio, row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let mut read = Self::new(loss);
        read.all = Ledger::read(row, LABELS_MAX, read.loss)?;
        for _ in 0..row.count(CLASSES_MAX)? {
            let class = Class::new(row.next()?.cast_unsigned());
            let ledger = Ledger::read(row, CLASS_LABELS_MAX, read.loss)?;
            read.classes.insert(class, ledger);
        }
        Ok(read)
    }
}

impl Ledger {
    fn new(loss: Ratio) -> Self {
        Self { entries: Vec::new(), seen: 0, level: i64::from(loss.get()) * FINE, cut: NOTHING }
    }

    fn remember(&mut self, lesson: &Lesson, most: usize) {
        let entry = Entry {
            score: lesson.score.get(),
            weight: u32::try_from(lesson.propensity.weight_thousandths()).unwrap_or(u32::MAX),
            worse: lesson.label == Label::Worse,
            served: lesson.served == Choice::Draft,
        };
        if self.entries.len() < most {
            self.entries.push(entry);
        } else {
            let place = self.seen % u64::try_from(most).unwrap_or(1);
            self.entries[usize::try_from(place).unwrap_or(0)] = entry;
        }
        self.seen += 1;
    }

    /// The lowest score from which on the loss is within the level:
    /// `inf { s : (sum of w·lost(s) + w) / (sum of w + w) <= level }`, `w` being the mean weight.
    fn place(&self) -> u32 {
        let count = u64::try_from(self.entries.len()).unwrap_or(0);
        let sum: u64 = self.entries.iter().map(|entry| u64::from(entry.weight)).sum();
        let one = sum.checked_div(count).unwrap_or(WEIGHT_ONE);
        let level = i128::from(self.level.max(0));
        let billion = i128::from(FINE) * i128::from(WHOLE);
        let mut left = i128::from(sum + one) * level - i128::from(one) * billion;
        if left < 0 || count == 0 {
            return NOTHING;
        }
        let worse = self.entries.iter().filter(|entry| entry.worse);
        let mut worse: Vec<(u32, u32)> = worse.map(|entry| (entry.score, entry.weight)).collect();
        worse.sort_unstable_by(|one, other| other.cmp(one));
        for (score, weight) in worse {
            left -= i128::from(weight) * billion;
            if left < 0 {
                return score + 1;
            }
        }
        0
    }

    fn write(&self, row: &mut Vec<i64>) {
        row.extend([signed(self.seen), self.level, number(self.entries.len())]);
        row.extend(self.entries.iter().map(|entry| {
            let flags = i64::from(entry.worse) << 1 | i64::from(entry.served);
            i64::from(entry.score) << 32 | i64::from(entry.weight) << 2 | flags
        }));
    }

    fn read(row: &mut Reader<'_>, most: usize, loss: Ratio) -> Result<Self, PartsError> {
        let mut read = Self::new(loss);
        read.seen = row.natural()?;
        let highest = LEVEL_MAX * i64::from(loss.get()) * FINE;
        read.level = row.next()?.min(highest);
        for _ in 0..row.count(most)? {
            let packed = row.within(0, i64::from(NOTHING) << 32)?;
            let low = u32::try_from(packed & i64::from(u32::MAX)).unwrap_or(0);
            read.entries.push(Entry {
                score: u32::try_from(packed >> 32).unwrap_or(0),
                weight: low >> 2,
                worse: low & 2 != 0,
                served: low & 1 != 0,
            });
        }
        read.cut = read.place();
        Ok(read)
    }
}
