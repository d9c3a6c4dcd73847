//! Static depth table: the best draft depth by batch size for a vLLM worker, from its metrics.
//!
//! vLLM looks its depth up by the number of sequences in a step, in a table that the operator
//! writes (`num_speculative_tokens_per_batch_size`). The table follows from the worker's metrics:
//! the acceptance rate by position, and the times of steps with and without drafts. Steps without
//! drafts give the cost of the target; the rest of the others' time is the draft's
//! (`docs/design/speculation.md#r10`).

use alloc::vec::Vec;
use core::fmt;

use overdraft_units::Micros;

use super::acceptance::DEPTH_MAX;
use super::costs::{CostCurve, Nanos, StepCosts};
use super::share::Share;

/// Minimum drafts in the metrics.
pub const DRAFTS_MIN: u64 = 200;
/// Maximum sequences of a table.
pub const SEQUENCES_MAX: u32 = 4_096;
/// Maximum intervals of steps that are kept; later ones are left out.
const STEPS_MAX: usize = 8_192;
/// Minimum steps of an interval for its mean step time to count.
const STEPS_IN_A_STRETCH_MIN: u64 = 4;
/// Minimum gain of a depth over no drafts, in thousandths: a static table cannot correct itself.
const GAIN_MIN_PERMILLE: u64 = 30;
/// Minimum gain of one more drafted token, in thousandths.
const DEEPER_MIN_PERMILLE: u64 = 5;

/// What was seen of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Slots of sequences that were decoded, with a draft or without, where drafts were to be had.
    pub sequence_steps: u64,
    /// Those with a draft.
    pub drafts: u64,
    /// Right guesses by their place in the draft.
    pub accepted: [u64; DEPTH_MAX],
    /// Places that drafts had; the chances behind them are supposed to be that of the last.
    pub depth: usize,
    /// Steps, of this worker and of one that nobody guesses for.
    pub steps: Vec<StepSeen>,
}

/// A stretch of steps that were alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSeen {
    /// Sequences that were decoded together.
    pub sequences: u32,
    /// Tokens drafted for all of them together.
    pub drafted: u32,
    /// What one step took.
    pub took: Nanos,
}

/// What a worker's counters say at one moment; they count since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are computed now.
    pub running: u32,
    /// Requests that wait now.
    pub waiting: u32,
    /// Tokens generated.
    pub generated: u64,
    /// Drafts verified.
    pub drafts: u64,
    /// Tokens of those.
    pub drafted: u64,
    /// Of those, right ones.
    pub accepted: u64,
    /// Right ones by their place in the draft.
    pub accepted_at: [u64; DEPTH_MAX],
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advised {
    /// From this number of sequences.
    pub first: u32,
    /// To this one.
    pub last: u32,
    /// Guess so deep.
    pub depth: usize,
    /// Tokens a second beside none guessed, in thousandths, at the last number of sequences.
    pub permille: u32,
    /// Whether a step of as many rows was seen; else its cost goes on along the last line.
    pub seen: bool,
}

/// What was seen is too little for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuneError {
    /// Too few drafts were verified.
    Drafts {
        /// So many were.
        seen: u64,
    },
    /// Steps without drafts were seen at too few sizes.
    PlainSizes {
        /// So many.
        seen: usize,
    },
    /// No step with drafts was seen, so what a draft costs is not known.
    NoDraftedStep,
}

impl fmt::Display for TuneError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drafts { seen } => {
                write!(out, "`{seen}` drafts were verified; expected at least {DRAFTS_MIN}")
            }
            Self::PlainSizes { seen } => write!(
                out,
                "steps without drafts were seen at `{seen}` sizes of the batch; expected at least two, \
                 one twice the other"
            ),
            Self::NoDraftedStep => {
                out.write_str("no step with drafts was seen; expected some at a steady load")
            }
        }
    }
}

impl core::error::Error for TuneError {}

impl Counts {
    /// What was counted since; `None` where it began anew.
    fn since(&self, earlier: &Self) -> Option<Self> {
        let mut accepted_at = [0; DEPTH_MAX];
        for (place, more) in accepted_at.iter_mut().enumerate() {
            *more = self.accepted_at[place].checked_sub(earlier.accepted_at[place])?;
        }
        Some(Self {
            generated: self.generated.checked_sub(earlier.generated)?,
            drafts: self.drafts.checked_sub(earlier.drafts)?,
            drafted: self.drafted.checked_sub(earlier.drafted)?,
            accepted: self.accepted.checked_sub(earlier.accepted)?,
            accepted_at,
            ..*self
        })
    }
}

impl Evidence {
    /// The table for up to `sequences` at once and drafts of up to `depth_max` tokens. All depths zero:
    /// do not speculate on this worker.
    ///
    /// # Errors
    /// [`TuneError`] when too little was seen.
    pub fn table(&self, sequences: u32, depth_max: usize) -> Result<Vec<Advised>, TuneError> {
        if self.drafts < DRAFTS_MIN {
            return Err(TuneError::Drafts { seen: self.drafts });
        }
        let (costs, rows_seen) = self.costs()?;
        let outlook = Outlook { survival: self.survival(), share: self.share(), costs };
        let mut lines: Vec<Advised> = Vec::new();
        let mut first = 1;
        while first <= sequences.clamp(1, SEQUENCES_MAX) {
            // Ranges double: the worst place of each, its end, decides.
            let last = (2 * first - 1).min(sequences.clamp(1, SEQUENCES_MAX));
            let (depth, permille) = outlook.best(last, depth_max.min(DEPTH_MAX));
            let seen = outlook.rows(last, depth) <= rows_seen;
            match lines.last_mut() {
                Some(line) if line.depth == depth => {
                    (line.last, line.permille, line.seen) = (last, permille, line.seen && seen);
                }
                _ => lines.push(Advised { first, last, depth, permille, seen }),
            }
            first = last + 1;
        }
        Ok(lines)
    }

    /// Takes note of what a worker did between two looks at its counters. Nothing where it was
    /// restarted between them; no step where the load changed, or something waited.
    pub fn observe(&mut self, earlier: &Counts, later: &Counts, apart: Micros) {
        let Some(since) = later.since(earlier) else { return };
        let sequence_steps = since.generated.saturating_sub(since.accepted);
        if 0 < since.drafts {
            self.drafts += since.drafts;
            self.sequence_steps += sequence_steps.max(since.drafts);
            for (all, more) in self.accepted.iter_mut().zip(since.accepted_at) {
                *all += more;
            }
            let depth = usize::try_from(since.drafted.div_ceil(since.drafts)).unwrap_or(DEPTH_MAX);
            self.depth = self.depth.max(depth.min(DEPTH_MAX));
        }
        let (before, now) = (u64::from(earlier.running), u64::from(later.running));
        // A batch that changes by an eighth is the same to a table.
        let steady = before.abs_diff(now) * 8 <= now && earlier.waiting + later.waiting == 0;
        let steps = sequence_steps.checked_div(now).unwrap_or(0);
        if steady && STEPS_IN_A_STRETCH_MIN <= steps && self.steps.len() < STEPS_MAX {
            let took = apart.get().saturating_mul(1_000) / steps;
            let drafted = u32::try_from(since.drafted / steps).unwrap_or(u32::MAX);
            self.steps.push(StepSeen { sequences: later.running, drafted, took });
        }
    }

    /// The part of slots that had a draft: lookups find none in most.
    pub fn share(&self) -> Share {
        Share::of(self.drafts, self.sequence_steps)
    }

    /// The chance of each place to be reached and right.
    pub fn survival(&self) -> [Share; DEPTH_MAX] {
        let mut before = (self.drafts, Share::WHOLE);
        let mut last = Share::NONE;
        let mut all = [Share::NONE; DEPTH_MAX];
        for (place, survival) in all.iter_mut().enumerate() {
            let right = self.accepted[place];
            if place < self.depth {
                last = Share::of(right, before.0);
            }
            before = (right, before.1.times(last));
            *survival = before.1;
        }
        all
    }

    /// Steps by their rows, and the most rows that were seen.
    fn costs(&self) -> Result<(StepCosts, u32), TuneError> {
        let plain: Vec<_> = self.steps.iter().filter(|step| step.drafted == 0).collect();
        let points = middles(plain.iter().map(|step| (step.sequences, step.took)));
        let (least, most) = (points.first(), points.last());
        let apart = least.zip(most).is_some_and(|(least, most)| 2 * least.0 <= most.0);
        if !apart {
            return Err(TuneError::PlainSizes { seen: points.len() });
        }
        let rows_seen = most.map_or(0, |most| most.0);
        let verify = CostCurve::new(points);
        let drafted = self.steps.iter().filter(|step| 0 < step.drafted && 0 < step.sequences);
        // A pass of the draft is over one row of each sequence; lookups have a part of one.
        let pass = drafted.map(|step| {
            let left = step.took.saturating_sub(verify.at(step.sequences + step.drafted));
            (step.sequences, left * u64::from(step.sequences) / u64::from(step.drafted))
        });
        let points = middles(pass);
        if points.is_empty() {
            return Err(TuneError::NoDraftedStep);
        }
        Ok((StepCosts { verify, draft: CostCurve::new(points), ..StepCosts::default() }, rows_seen))
    }
}

/// What a table is reckoned from.
struct Outlook {
    survival: [Share; DEPTH_MAX],
    share: Share,
    costs: StepCosts,
}

impl Outlook {
    /// Rows of a step of so many sequences.
    fn rows(&self, sequences: u32, depth: usize) -> u32 {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let drafted = u64::from(sequences) * u64::from(depth) * u64::from(self.share.parts());
        sequences.saturating_add(u32::try_from(drafted >> 16).unwrap_or(u32::MAX))
    }

    /// Tokens of a sequence's step, in 65,536ths, and what the step takes.
    fn step(&self, sequences: u32, depth: usize) -> (u64, Nanos) {
        let right = self.survival[..depth].iter().map(|chance| u64::from(chance.parts()));
        let right = (right.sum::<u64>() * u64::from(self.share.parts())) >> 16;
        // What a pass costs was reckoned over all steps, drafted for or not.
        let passes = self.costs.draft.at(sequences).saturating_mul(depth as u64);
        let passes = (u128::from(passes) * u128::from(self.share.parts())) >> 16;
        let took = self.costs.verify.at(self.rows(sequences, depth));
        (
            u64::from(Share::WHOLE.parts()) + right,
            took + u64::try_from(passes).unwrap_or(u64::MAX / 2),
        )
    }

    /// The depth that brings most, and what it brings beside none, in thousandths.
    fn best(&self, sequences: u32, depth_max: usize) -> (usize, u32) {
        let (none, alone) = self.step(sequences, 0);
        let permille = |depth: usize| {
            let (tokens, took) = self.step(sequences, depth);
            let (brings, takes) =
                (u128::from(tokens) * u128::from(alone), u128::from(none) * u128::from(took));
            u64::try_from(1_000 * brings / takes.max(1)).unwrap_or(u64::MAX)
        };
        let mut best = (0, 1_000);
        for depth in 1..=depth_max {
            let found = permille(depth);
            let least = if best.0 == 0 { GAIN_MIN_PERMILLE } else { DEEPER_MIN_PERMILLE };
            if best.1 + least <= found {
                best = (depth, found);
            }
        }
        (best.0, u32::try_from(best.1).unwrap_or(u32::MAX))
    }
}

/// One point for sizes that are less than twice each other: their mean, and the median of the times.
fn middles(steps: impl Iterator<Item = (u32, Nanos)>) -> Vec<(u32, Nanos)> {
    let mut steps: Vec<_> = steps.filter(|step| 0 < step.0).collect();
    steps.sort_unstable();
    let mut points = Vec::new();
    for alike in steps.chunk_by(|one, other| one.0.ilog2() == other.0.ilog2()) {
        let sum: u64 = alike.iter().map(|step| u64::from(step.0)).sum();
        let mean = u32::try_from(sum / alike.len() as u64).unwrap_or(u32::MAX);
        let mut times: Vec<_> = alike.iter().map(|step| step.1).collect();
        times.sort_unstable();
        points.push((mean, times[times.len() / 2]));
    }
    points
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    /// A worker whose steps take 20 ms and some for each row beyond 64, whose draft takes a
    /// twentieth, and whose guesses are right so often.
    fn evidence(percent: u64, row: Nanos) -> Evidence {
        let verify = |rows: u32| 20_000_000 + row * u64::from(rows.saturating_sub(64));
        let mut accepted = [0; DEPTH_MAX];
        let mut right = 10_000;
        for place in &mut accepted[..4] {
            right = right * percent / 100;
            *place = right;
        }
        let sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256];
        let plain =
            sizes.map(|sequences| StepSeen { sequences, drafted: 0, took: verify(sequences) });
        let drafted = sizes.map(|sequences| StepSeen {
            sequences,
            drafted: 4 * sequences,
            took: verify(5 * sequences) + 4 * 1_000_000,
        });
        let steps = [plain, drafted].concat();
        Evidence { sequence_steps: 10_000, drafts: 10_000, accepted, depth: 4, steps }
    }

    #[track_caller]
    fn check(evidence: &Evidence, expected: &[(u32, u32, usize)]) {
        let table = evidence.table(256, 8).unwrap();
        let lines: Vec<_> = table.iter().map(|line| (line.first, line.last, line.depth)).collect();
        assert_eq!(lines, expected);
        assert!(crate::speculate::DepthTable::new(&lines).is_some(), "vLLM takes it");
    }

    #[test]
    fn depth_falls_as_the_batch_grows() {
        check(
            &evidence(80, 150_000),
            &[(1, 7, 8), (8, 15, 4), (16, 63, 2), (64, 127, 1), (128, 256, 0)],
        );
    }

    #[test]
    fn guesses_that_are_mostly_wrong_are_not_worth_making() {
        let table = evidence(4, 150_000).table(256, 8).unwrap();
        assert!(table.iter().all(|line| line.depth == 0), "{table:?}");
    }

    #[test]
    fn what_was_not_seen_is_told_apart() {
        let mut evidence = evidence(80, 0);
        evidence.steps.retain(|step| step.sequences < 33);
        let table = evidence.table(64, 4).unwrap();
        assert!(table.iter().all(|line| line.depth == 4 && !line.seen), "{table:?}");
    }

    #[test]
    fn lookups_that_find_little_count_little() {
        let mut rare = evidence(80, 150_000);
        rare.sequence_steps = 100_000;
        let (often, rare) = (evidence(80, 150_000).table(1, 4), rare.table(1, 4));
        let gain = |table: Result<Vec<Advised>, TuneError>| table.unwrap()[0].permille;
        let (often, rare) = (gain(often), gain(rare));
        assert!(2_000 < often && rare < 1_300, "{often} {rare}");
    }

    #[track_caller]
    fn check_refused(change: impl Fn(&mut Evidence), says: &str) {
        let mut seen = evidence(80, 1);
        change(&mut seen);
        assert!(seen.table(8, 4).unwrap_err().to_string().contains(says));
    }

    #[test]
    fn too_little_is_refused() {
        check_refused(|seen| seen.drafts = 12, "`12` drafts were verified; expected at least 200");
        check_refused(|seen| seen.steps.retain(|step| 0 < step.drafted), "at `0` sizes");
        check_refused(
            |seen| seen.steps.retain(|step| 0 < step.drafted || step.sequences == 8),
            "at `1` sizes of the batch; expected at least two",
        );
        check_refused(|seen| seen.steps.retain(|step| step.drafted == 0), "no step with drafts");
    }

    #[test]
    fn steps_are_read_off_counters_of_a_steady_load() {
        // Eight sequences for a second, fifty steps; four tokens drafted in each, two of them right.
        let earlier = Counts { running: 8, generated: 5, drafts: 3, ..Counts::default() };
        let later = Counts {
            running: 8,
            generated: 5 + 8 * 50 * 3,
            drafts: 3 + 8 * 50,
            drafted: 8 * 50 * 4,
            accepted: 8 * 50 * 2,
            accepted_at: [400, 300, 100, 0, 0, 0, 0, 0],
            ..earlier
        };
        let second = Micros::new(1_000_000);
        let mut seen = Evidence::default();
        seen.observe(&earlier, &later, second);
        let step = StepSeen { sequences: 8, drafted: 32, took: 20_000_000 };
        assert_eq!((seen.drafts, seen.sequence_steps, seen.depth), (400, 400, 4));
        assert_eq!(seen.steps, [step]);
        // A restart counts for nothing, and a load that changes is no measure of a step.
        seen.observe(&later, &earlier, second);
        seen.observe(&Counts { running: 2, ..earlier }, &later, second);
        seen.observe(&earlier, &Counts { waiting: 1, ..later }, second);
        assert_eq!((seen.drafts, seen.steps.len()), (1_200, 1));
    }

    #[test]
    fn sizes_that_are_alike_are_one_point() {
        let points = middles([(2, 5), (3, 4), (3, 9), (0, 7), (4, 1)].into_iter());
        assert_eq!(points, [(2, 5), (4, 1)]);
    }
}
