//! Early termination of drafts: whether a running draft is still likely to be accepted.
//!
//! A draft that will be refused costs its whole time before the target begins. So a table counts,
//! for every length so far and every level of the running score, how often such a draft was
//! accepted in the end; where that is unlikely the draft is cancelled early. One in sixteen
//! continues (exploration), or an error in the table would never be corrected.

use alloc::vec::Vec;
use overdraft_units::Ratio;

use super::probability::WHOLE;
use super::snapshot::{PartsError, Reader, signed};
use super::threshold::Choice;

/// Length buckets of a draft: up to 7 tokens, up to 15, up to 31 and so on.
const STRETCHES: usize = 8;
/// Levels of the running score.
const HEIGHTS: usize = 16;
/// Minimum samples before a cell is used.
const SEEN_MIN: u32 = 24;
/// Sample count at which a cell's counts are halved, so that old drafts fade.
const SEEN_MAX: u32 = 512;
/// Exploration: one in this many drafts that should be cancelled continues.
const SPARED: u64 = 16;

/// A cell of the table: length bucket and score level of a running draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stand(u8);

/// The stands of one draft, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stands(u128);

/// How often drafts that stood there passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prospects {
    cells: [(u32, u32); STRETCHES * HEIGHTS],
    bound: Ratio,
}

impl Stands {
    /// With another stand of the same draft.
    #[must_use]
    pub const fn with(self, stand: Stand) -> Self {
        Self(self.0 | 1 << stand.0)
    }
}

impl Prospects {
    /// Nothing known; a draft is ended where it passes with less than `bound`.
    pub const fn new(bound: Ratio) -> Self {
        Self { cells: [(0, 0); STRETCHES * HEIGHTS], bound }
    }

    /// Where a draft of so many tokens and that running score stands.
    pub fn stand(tokens: u32, running: Ratio) -> Stand {
        let stretch = (tokens.max(4).ilog2() - 2).min(7);
        // Finer towards certainty: a 64th, a 32nd, a 16th and so on away from it.
        let away = (WHOLE - running.get()).max(WHOLE >> 8);
        let octaves = (WHOLE / away).max(1).ilog2();
        let half = u32::from(away < (WHOLE >> octaves) / 4 * 3);
        let height = (octaves * 2 + half).min(15);
        Stand(u8::try_from(stretch * 16 + height).unwrap_or(0))
    }

    /// The chance that a draft that stands there passes; nothing where too little is known.
    pub fn passes(&self, stand: Stand) -> Option<Ratio> {
        let (seen, passed) = *self.cells.get(usize::from(stand.0))?;
        (SEEN_MIN <= seen).then(|| Ratio::of(u64::from(passed) + 1, u64::from(seen) + 2))
    }

    /// Whether a draft that stands there should end, with a number drawn once for the draft.
    pub fn hopeless(&self, stand: Stand, drawn: u64) -> bool {
        let unlikely = self.passes(stand).is_some_and(|chance| chance < self.bound);
        unlikely && !(drawn >> 32).is_multiple_of(SPARED)
    }

    /// Learns how a draft that was not ended early came out.
    pub fn learn(&mut self, stands: Stands, choice: Choice) {
        for (place, cell) in self.cells.iter_mut().enumerate() {
            if stands.0 >> place & 1 == 0 {
                continue;
            }
            if SEEN_MAX <= cell.0 {
                *cell = (cell.0 / 2, cell.1 / 2);
            }
            cell.0 += 1;
            cell.1 += u32::from(choice == Choice::Draft);
        }
    }

    pub(super) fn write(&self, row: &mut Vec<i64>) {
        row.extend(
            self.cells.iter().map(|cell| signed(u64::from(cell.0) << 16 | u64::from(cell.1))),
        );
    }

    pub(super) fn read(bound: Ratio, row: &mut Reader<'_>) -> Result<Self, PartsError> {
        let mut read = Self::new(bound);
        for cell in &mut read.cells {
            let packed = row.within(0, i64::from(SEEN_MAX) << 16 | i64::from(u16::MAX))?;
            let part = |bits: i64| u32::try_from(bits & i64::from(u16::MAX)).unwrap_or(0);
            *cell = (part(packed >> 16), part(packed).min(part(packed >> 16)));
        }
        Ok(read)
    }
}
