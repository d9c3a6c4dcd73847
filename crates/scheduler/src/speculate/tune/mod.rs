//! Static depth table: the best draft depth by batch size for a vLLM worker, from its metrics.
//!
//! vLLM looks its depth up by the number of sequences in a step, in a table that the operator
//! writes (`num_speculative_tokens_per_batch_size`). The table follows from the worker's metrics:
//! the acceptance rate by position, and the times of steps with and without drafts. Steps without
//! drafts give the cost of the target; the rest of the others' time is the draft's
//! (`docs/design/speculation.md#r10`).

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::fmt;

use overdraft_units::Micros;

use super::acceptance::DEPTH_MAX;
use super::costs::{CostCurve, Nanos, StepCosts};
use overdraft_units::Ratio;

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
    /// Of those, right ones, in thousandths of a token.
    pub accepted_milli: u32,
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
    /// What was reckoned before the window said otherwise, if it did: the depth is none then.
    pub contradicted: Option<usize>,
}

/// What guessing brings at the depth that the worker has, as the window itself shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Sequences that were decoded together.
    pub sequences: u32,
    /// Tokens drafted for each of them, rounded.
    pub depth: u32,
    /// Tokens a second beside steps without drafts of about as many sequences, in thousandths.
    pub permille: u32,
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
        let present = self.present();
        let outlook = Outlook { survival: self.survival(), share: self.share(), costs };
        let mut lines: Vec<Advised> = Vec::new();
        let mut first = 1;
        while first <= sequences.clamp(1, SEQUENCES_MAX) {
            // Ranges double: the worst place of each, its end, decides.
            let last = (2 * first - 1).min(sequences.clamp(1, SEQUENCES_MAX));
            let (depth, permille) = outlook.best(last, depth_max.min(DEPTH_MAX));
            let seen = outlook.rows(last, depth) <= rows_seen;
            // What is reckoned from curves must not say that guessing pays where it was seen not to.
            let loses =
                |seen: &&Present| seen.sequences.ilog2() == last.ilog2() && seen.permille < 1_000;
            let contradicted = present.iter().find(loses).map(|_| depth).filter(|&depth| 0 < depth);
            let (depth, permille) =
                if contradicted.is_some() { (0, 1_000) } else { (depth, permille) };
            match lines.last_mut() {
                Some(line) if line.depth == depth && line.contradicted == contradicted => {
                    (line.last, line.permille, line.seen) = (last, permille, line.seen && seen);
                }
                _ => lines.push(Advised { first, last, depth, permille, seen, contradicted }),
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
            let accepted = since.accepted.saturating_mul(1_000) / steps;
            let accepted_milli = u32::try_from(accepted).unwrap_or(u32::MAX);
            let sequences = later.running;
            self.steps.push(StepSeen { sequences, drafted, accepted_milli, took });
        }
    }

    /// What guessing brings now, by sizes of the batch at which steps with drafts and without were seen.
    pub fn present(&self) -> Vec<Present> {
        let pace = |step: &StepSeen| {
            let tokens = 1_000 * u64::from(step.sequences) + u64::from(step.accepted_milli);
            u32::try_from(tokens.saturating_mul(1_000_000_000) / step.took.max(1))
                .unwrap_or(u32::MAX)
        };
        // A step's time and what it brings for each sequence, the median of each size.
        let of = |is_drafted: bool| {
            let steps = self.steps.iter().filter(|step| (0 < step.drafted) == is_drafted);
            let each =
                steps.map(|step| (step.sequences, u64::from(pace(step) / step.sequences.max(1))));
            middles(each)
        };
        let (plain, drafted) = (of(false), of(true));
        let found = drafted.into_iter().filter_map(|(sequences, rate)| {
            let (_, alone) = *plain.iter().find(|(size, _)| size.ilog2() == sequences.ilog2())?;
            let alike = |step: &&StepSeen| {
                0 < step.drafted && step.sequences.max(1).ilog2() == sequences.ilog2()
            };
            let (drafts, slots) =
                self.steps.iter().filter(alike).fold((0, 0), |(drafts, slots), step| {
                    (drafts + u64::from(step.drafted), slots + u64::from(step.sequences))
                });
            Some(Present {
                sequences,
                depth: u32::try_from((drafts + slots / 2) / slots.max(1)).unwrap_or(u32::MAX),
                permille: u32::try_from(1_000 * rate / alone.max(1)).unwrap_or(u32::MAX),
            })
        });
        found.collect()
    }

    /// The part of slots that had a draft: lookups find none in most.
    pub fn share(&self) -> Ratio {
        Ratio::of(self.drafts, self.sequence_steps)
    }

    /// The chance of each place to be reached and right.
    pub fn survival(&self) -> [Ratio; DEPTH_MAX] {
        let mut before = (self.drafts, Ratio::WHOLE);
        let mut last = Ratio::NONE;
        let mut all = [Ratio::NONE; DEPTH_MAX];
        for (place, survival) in all.iter_mut().enumerate() {
            let right = self.accepted[place];
            if place < self.depth {
                last = Ratio::of(right, before.0);
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
    survival: [Ratio; DEPTH_MAX],
    share: Ratio,
    costs: StepCosts,
}

impl Outlook {
    /// Rows of a step of so many sequences.
    fn rows(&self, sequences: u32, depth: usize) -> u32 {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let drafted = u64::from(sequences) * u64::from(depth) * u64::from(self.share.get());
        sequences.saturating_add(
            u32::try_from(drafted / u64::from(Ratio::WHOLE.get())).unwrap_or(u32::MAX),
        )
    }

    /// Tokens of a sequence's step, in millionths, and what the step takes.
    fn step(&self, sequences: u32, depth: usize) -> (u64, Nanos) {
        let right = self.survival[..depth].iter().map(|chance| u64::from(chance.get()));
        let right =
            right.sum::<u64>() * u64::from(self.share.get()) / u64::from(Ratio::WHOLE.get());
        // What a pass costs was reckoned over all steps, drafted for or not.
        let passes = self.costs.draft.at(sequences).saturating_mul(depth as u64);
        let passes =
            u128::from(passes) * u128::from(self.share.get()) / u128::from(Ratio::WHOLE.get());
        let took = self.costs.verify.at(self.rows(sequences, depth));
        (
            u64::from(Ratio::WHOLE.get()) + right,
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
