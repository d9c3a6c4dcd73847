//! Label journal: several gateways share their labels and learn the same model.
//!
//! Each gateway numbers its labels and publishes the latest, with everything that is learnt from
//! them; each applies those that are new to it. So every label moves every gateway's threshold
//! once, and sums add up. A state records the last number applied from each gateway (a version
//! vector), and two states are merged by applying what one of them lacks.
//! `docs/design/cascade.md#r12`.
//!
//! **Invariant:** no label is applied twice, however often and in whatever order journals come.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use overdraft_units::Ratio;

use super::class::Class;
use super::evidence::Evidence;
use super::features::Features;
use super::gate::{Judgement, Moment, at};
use super::probability::Propensity;
use super::scorer::Label;
use super::snapshot::{PartsError, Reader, number, signed};
use super::threshold::Choice;

/// The version of what [`Journal::to_parts`] writes.
const JOURNAL_VERSION: i64 = 1;

/// Maximum labels in a published journal; others have applied or missed older ones.
pub const JOURNAL_MAX: usize = 256;

/// Maximum gateways whose last number is remembered.
const GATEWAYS_MAX: usize = 64;

/// Bits of a chance as it is written: a million fits.
const CHANCE_BITS: u32 = 20;

/// A label with all that is learnt from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    first: Features,
    whole: Features,
    pub(super) class: Class,
    pub(super) moment: Moment,
    pub(super) score: Ratio,
    pub(super) serve: Choice,
    pub(super) would: Choice,
    pub(super) propensity: Propensity,
    pub(super) least: Propensity,
    pub(super) label: Label,
}

/// One thing that was learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// What a draft was worth.
    Label(Account),
    /// Which share of a draft the target accepted.
    Part(Ratio),
}

/// One thing that was learnt, to be passed on to other gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note(pub(super) Lesson);

/// What one gateway learnt last, numbered from one on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    gateway: u64,
    /// The number of the latest.
    told: u64,
    notes: VecDeque<Note>,
}

/// How far each gateway was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard(BTreeMap<u64, u64>);

/// What came of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    /// Labels that were learnt from.
    pub learnt: u64,
    /// Labels that the journal no longer has.
    pub missed: u64,
}

impl Account {
    pub(super) fn of(judgement: &Judgement, evidence: &Evidence, label: Label) -> Self {
        let Judgement { class, moment, score, serve, would, propensity, least, .. } = *judgement;
        let (first, whole) = (at(Moment::First, evidence), at(Moment::Whole, evidence));
        Self { first, whole, class, moment, score, serve, would, propensity, least, label }
    }

    /// What was known of the draft at that moment.
    pub(super) const fn features(&self, moment: Moment) -> &Features {
        match moment {
            Moment::First => &self.first,
            Moment::Whole => &self.whole,
        }
    }

    fn write(&self, row: &mut Vec<i64>) {
        self.first.write(row);
        self.whole.write(row);
        row.push(self.class.get().cast_signed());
        let flag = |holds: bool, place: u32| i64::from(holds) << place;
        row.push(
            self.label.number()
                | flag(self.moment == Moment::First, 2)
                | flag(self.serve == Choice::Draft, 3)
                | flag(self.would == Choice::Draft, 4),
        );
        let chances = [self.score, self.propensity.chance(), self.least.chance()];
        let packed = chances
            .into_iter()
            .fold(0, |packed, chance| packed << CHANCE_BITS | i64::from(chance.get()));
        row.push(packed);
    }

    fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let (first, whole) = (Features::read(row)?, Features::read(row)?);
        let class = Class::new(row.next()?.cast_unsigned());
        let flags = row.within(0, 31)?;
        let label = Label::of(flags & 3).unwrap_or(Label::Worse);
        let choice = |place: u32| {
            if flags >> place & 1 == 1 { Choice::Draft } else { Choice::Target }
        };
        let packed = row.within(0, (1 << (3 * CHANCE_BITS)) - 1)?;
        let chance = |place: u32| {
            let bits = packed >> (place * CHANCE_BITS) & ((1 << CHANCE_BITS) - 1);
            Ratio::millionths(u32::try_from(bits).unwrap_or(0))
        };
        Ok(Self {
            first,
            whole,
            class,
            moment: if flags >> 2 & 1 == 1 { Moment::First } else { Moment::Whole },
            score: chance(2),
            serve: choice(3),
            would: choice(4),
            propensity: Propensity::new(chance(1)),
            least: Propensity::new(chance(0)),
            label,
        })
    }
}

impl Note {
    /// What a checked draft was worth, from the evidence of all of it.
    pub fn label(judgement: &Judgement, evidence: &Evidence, label: Label) -> Self {
        Self(Lesson::Label(Account::of(judgement, evidence, label)))
    }

    /// Which share of a draft the target accepted.
    pub const fn part(accepted: Ratio) -> Self {
        Self(Lesson::Part(accepted))
    }

    fn write(&self, row: &mut Vec<i64>) {
        match &self.0 {
            Lesson::Label(account) => {
                row.push(0);
                account.write(row);
            }
            Lesson::Part(accepted) => row.extend([1, accepted.get().into()]),
        }
    }

    fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        if row.within(0, 1)? == 0 {
            return Account::read(row).map(|account| Self(Lesson::Label(account)));
        }
        let accepted = row.within(0, Ratio::WHOLE.get().into())?;
        Ok(Self::part(Ratio::millionths(u32::try_from(accepted).unwrap_or(0))))
    }
}

impl Journal {
    /// An empty one of a gateway that is known by a number of its own: a gateway that starts again is another.
    pub const fn new(gateway: u64) -> Self {
        Self { gateway, told: 0, notes: VecDeque::new() }
    }

    /// Whose it is.
    pub const fn gateway(&self) -> u64 {
        self.gateway
    }

    /// Notes something down; its number.
    pub(super) fn push(&mut self, note: Note) -> u64 {
        if JOURNAL_MAX <= self.notes.len() {
            self.notes.pop_front();
        }
        self.notes.push_back(note);
        self.told += 1;
        self.told
    }

    /// What follows on the number that was heard last: so many that are lost, then the rest.
    pub(super) fn after(&self, heard: u64) -> (u64, impl Iterator<Item = &Note>) {
        let kept = u64::try_from(self.notes.len()).unwrap_or(u64::MAX);
        let new = self.told.saturating_sub(heard);
        let skipped = usize::try_from(kept.saturating_sub(new)).unwrap_or(usize::MAX);
        (new.saturating_sub(kept), self.notes.iter().skip(skipped))
    }

    /// The number of the latest.
    pub const fn told(&self) -> u64 {
        self.told
    }

    /// All of it, as whole numbers.
    pub fn to_parts(&self) -> Vec<i64> {
        let mut row = Vec::new();
        row.extend([JOURNAL_VERSION, self.gateway.cast_signed(), signed(self.told)]);
        row.push(number(self.notes.len()));
        for note in &self.notes {
            note.write(&mut row);
        }
        row
    }

    /// What was written.
    ///
    /// # Errors
    /// Where the numbers are no journal.
    pub fn from_parts(parts: &[i64]) -> Result<Self, PartsError> {
        let mut row = Reader::new(parts, JOURNAL_VERSION)?;
        let gateway = row.next()?.cast_unsigned();
        let told = row.natural()?;
        let count = row.count(JOURNAL_MAX.min(usize::try_from(told).unwrap_or(JOURNAL_MAX)))?;
        let notes = (0..count).map(|_| Note::read(&mut row)).collect::<Result<_, _>>()?;
        row.end()?;
        Ok(Self { gateway, told, notes })
    }
}

impl Heard {
    /// The number of what was heard last.
    pub(super) fn of(&self, gateway: u64) -> u64 {
        self.0.get(&gateway).copied().unwrap_or(0)
    }

    /// It was heard up to there. Of more gateways than are remembered the one that said least is forgotten.
    pub(super) fn note(&mut self, gateway: u64, told: u64) {
        self.0.insert(gateway, told);
        if GATEWAYS_MAX < self.0.len() {
            let others = self.0.iter().filter(|(one, _)| **one != gateway);
            let least = others.min_by_key(|(one, told)| (**told, **one)).map(|(one, _)| *one);
            if let Some(least) = least {
                self.0.remove(&least);
            }
        }
    }

    /// How much was heard in all.
    pub(super) fn sum(&self) -> u64 {
        self.0.values().fold(0, |sum, told| sum.saturating_add(*told))
    }

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        row.push(number(self.0.len()));
        row.extend(self.0.iter().flat_map(|(one, told)| [one.cast_signed(), signed(*told)]));
    }

    pub(super) fn read(row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let count = row.count(GATEWAYS_MAX)?;
        let pairs = (0..count).map(|_| Ok((row.next()?.cast_unsigned(), row.natural()?)));
        pairs.collect::<Result<_, PartsError>>().map(Self)
    }
}
