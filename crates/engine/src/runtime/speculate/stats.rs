//! Speculation statistics: drafted and accepted tokens, depth and rule, as in vLLM's metrics.

use overdraft_scheduler::speculate::{DEPTH_MAX, Drafter, Reason};
use overdraft_units::{Micros, Ratio};

/// Counts since the start, and how things stood after the last step. Names and meanings are those of
/// vLLM's `spec_decode` counters where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeculationStats {
    /// Whether there is a drafter.
    pub enabled: bool,
    /// The rule in force, without its numbers.
    pub policy: &'static str,
    /// The depth in force; a step that explores does not change it.
    pub depth: u32,
    /// Tokens of a draft at most.
    pub depth_max: u32,
    /// Why the depth last changed.
    pub reason: Reason,
    /// How often it did.
    pub changes: u64,
    /// Drafts verified.
    pub drafts: u64,
    /// Tokens of those.
    pub draft_tokens: u64,
    /// Of those, right ones.
    pub accepted_tokens: u64,
    /// Guesses of the draft model that were not worth verifying.
    pub dropped_tokens: u64,
    /// Right ones by their place in the draft.
    pub accepted_per_position: [u64; DEPTH_MAX],
    /// Tokens by drafter, in the order of [`Drafter::ALL`].
    pub draft_tokens_by: [u64; 2],
    /// Right tokens by drafter.
    pub accepted_tokens_by: [u64; 2],
    /// Share of tried tokens that were right of late, by drafter; lookups count unused ones too.
    pub acceptance: [Ratio; 2],
    /// Slots of sequences that decode.
    pub sequence_steps: u64,
    /// Tokens that they yielded.
    pub tokens: u64,
    /// Spent on guessing.
    pub draft_time: Micros,
    /// Spent by the target in steps that only decode, verification included.
    pub verify_time: Micros,
}

impl SpeculationStats {
    /// Share of all drafted tokens that were right; zero before any were.
    pub fn acceptance_rate(&self) -> f64 {
        ratio(self.accepted_tokens, self.draft_tokens)
    }

    /// Tokens a sequence yields in a step, on average; zero before any did.
    pub fn tokens_per_step(&self) -> f64 {
        ratio(self.tokens, self.sequence_steps)
    }

    /// The counts since an earlier moment; how things stand is as it is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let pairs =
            |now: [u64; 2], before: [u64; 2]| [less(now[0], before[0]), less(now[1], before[1])];
        let mut positions = self.accepted_per_position;
        for (now, before) in positions.iter_mut().zip(before.accepted_per_position) {
            *now = less(*now, before);
        }
        let time = |now: Micros, before: Micros| now.checked_sub(before).unwrap_or(Micros::ZERO);
        Self {
            changes: less(self.changes, before.changes),
            drafts: less(self.drafts, before.drafts),
            draft_tokens: less(self.draft_tokens, before.draft_tokens),
            accepted_tokens: less(self.accepted_tokens, before.accepted_tokens),
            dropped_tokens: less(self.dropped_tokens, before.dropped_tokens),
            accepted_per_position: positions,
            draft_tokens_by: pairs(self.draft_tokens_by, before.draft_tokens_by),
            accepted_tokens_by: pairs(self.accepted_tokens_by, before.accepted_tokens_by),
            sequence_steps: less(self.sequence_steps, before.sequence_steps),
            tokens: less(self.tokens, before.tokens),
            draft_time: time(self.draft_time, before.draft_time),
            verify_time: time(self.verify_time, before.verify_time),
            ..*self
        }
    }

    pub(super) fn count(&mut self, drafter: Drafter, drafted: usize, right: usize) {
        let (drafted, place) = (drafted as u64, drafter.place());
        self.drafts += 1;
        self.draft_tokens += drafted;
        self.draft_tokens_by[place] += drafted;
        self.accepted_tokens += right as u64;
        self.accepted_tokens_by[place] += right as u64;
        for count in self.accepted_per_position.iter_mut().take(right) {
            *count += 1;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for a gauge")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
