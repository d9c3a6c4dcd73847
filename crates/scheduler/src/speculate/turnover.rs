//! What does it cost that sequences end and others begin?
//!
//! Each new one has a prompt: its place in the batch yields nothing while that is read, and a draft model that guesses
//! for it must read it, too (`docs/design/speculation.md#r3`).

use super::costs::{Nanos, StepCosts, float};
use super::prices::Ran;

/// Older steps fade: so many newer ones leave a third of what they count.
const BEGINNINGS_MEMORY: u64 = 128;
/// The same of what the draft model reads.
const READING_MEMORY: u64 = 256;

/// How often a step finds a sequence's place taken by one that only begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginnings {
    /// Sequences that began beside others that decoded, in 65,536ths.
    begun: u64,
    /// Tokens that came meanwhile, in as many.
    tokens: u64,
}

/// What the draft model spends on reading what the target has read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Spent on it, of late.
    reads: Nanos,
    /// Tokens that the sequences it guessed for emitted meanwhile.
    tokens: u64,
    /// Of those, the ones since the last step.
    fresh: u64,
    /// Rows of prompts that the target read, of late.
    prompts: f64,
    /// In so many pieces.
    pieces: f64,
    /// Tokens that it emitted meanwhile.
    emitted: f64,
    /// Sequences of the last step.
    running: u32,
}

impl Beginnings {
    /// Takes note of a step. One in which nobody decodes is as long whatever is guessed.
    pub(super) fn observe(&mut self, ran: &Ran) {
        if 0 < ran.sequences {
            let faded = |count: u64| count - count / BEGINNINGS_MEMORY;
            self.begun = faded(self.begun) + (u64::from(ran.beginning) << 16);
            self.tokens = faded(self.tokens) + (u64::from(ran.tokens) << 16);
        }
    }

    /// Steps begun in for each token, where so many sequences decode: that they all begin together is not mistaken
    /// for a rate.
    pub(super) fn each(self, sequences: u32) -> f64 {
        let least = (BEGINNINGS_MEMORY * u64::from(sequences)) << 16;
        float(self.begun) / float(self.tokens.max(least).max(1))
    }
}

impl Reading {
    /// A sequence that the draft model guessed for emitted so many tokens.
    pub(super) fn emit(&mut self, tokens: u64) {
        self.fresh += tokens;
    }

    /// Takes note of what was read in a step in which the draft model guessed.
    pub(super) fn observe(&mut self, reads: Nanos) {
        self.reads = self.reads - self.reads / READING_MEMORY + reads;
        self.tokens = self.tokens - self.tokens / READING_MEMORY + core::mem::take(&mut self.fresh);
    }

    /// Takes note of a step of the target. Sequences that take nobody's place come once: a crowd that arrives says
    /// nothing of how long answers are.
    pub(super) fn observe_prompts(&mut self, ran: &Ran) {
        let faded = |count: f64| count - count / float(READING_MEMORY);
        let running = ran.sequences + ran.beginning;
        let more = running.saturating_sub(core::mem::replace(&mut self.running, running));
        let is_crowd = ran.sequences == 0 && 1 < ran.beginning;
        let replaced = if is_crowd { 0 } else { ran.beginning.saturating_sub(more) };
        let part = f64::from(replaced) / f64::from(ran.beginning.max(1));
        self.prompts = faded(self.prompts) + part * f64::from(ran.prompts);
        self.pieces = faded(self.pieces) + f64::from(replaced);
        self.emitted = faded(self.emitted) + f64::from(ran.tokens);
    }

    /// A step without the draft model: what is known of reading gets old.
    pub(super) fn forget(&mut self) {
        self.reads -= self.reads / (4 * READING_MEMORY);
    }

    /// Nanoseconds of it for each token, where so many sequences decode. That they all begin together is not
    /// mistaken for a rate: what they bring is told from when it is spread over as many steps as are
    /// remembered. While the draft model, with these costs, `is_off` nothing is measured: what the target reads it
    /// would have to read as well, or it would begin again and again where answers are short. Not so of a lone
    /// sequence, for which it begins at once and ends at once, too.
    pub(super) fn each(self, sequences: u32, is_off: Option<&StepCosts>) -> f64 {
        let least = READING_MEMORY * u64::from(sequences);
        let measured = float(self.reads) / float(self.tokens.max(least).max(1));
        let Some(costs) = is_off.filter(|_| 1 < sequences) else { return measured };
        let piece = whole(self.prompts / self.pieces.max(1.0));
        let emitted = self.emitted.max(float(least)).max(1.0);
        measured.max(float(costs.reading(piece)) * self.pieces / emitted)
    }
}

/// Rows in whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rows of a step, never below zero"
)]
fn whole(rows: f64) -> u32 {
    rows as u32
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use super::super::costs::CostCurve;
    use super::*;

    /// A token takes a hundred nanoseconds to read, and a thousand to guess.
    fn costs() -> StepCosts {
        let curve = |row| CostCurve::new(vec![(1, row), (64, 64 * row)]);
        StepCosts { draft: curve(1_000), read: curve(100), ..StepCosts::default() }
    }

    fn ran(sequences: u32, beginning: u32) -> Ran {
        Ran {
            sequences,
            guesses: 0,
            prompts: 32 * beginning,
            beginning,
            tokens: sequences + beginning,
        }
    }

    #[test]
    fn what_the_target_reads_is_expected_of_a_draft_model_that_is_off() {
        let mut reading = Reading::default();
        reading.observe_prompts(&ran(0, 1));
        for step in 1..2_000_u32 {
            // Four sequences; each eighth step one begins anew: 32 rows for 32 tokens.
            let beginning = u32::from(step % 8 == 0);
            reading.observe_prompts(&ran(4 - beginning, beginning));
        }
        let each = reading.each(4, Some(&costs()));
        assert!((90.0..110.0).contains(&each), "{each} ns a token");
        assert!(reading.each(4, None) < 1.0, "nothing was measured");
        assert!(reading.each(1, Some(&costs())) < 1.0, "a lone one begins at once");
    }

    #[test]
    fn a_crowd_that_arrives_says_nothing_of_how_long_answers_are() {
        let (mut at_once, mut one_by_one) = (Reading::default(), Reading::default());
        at_once.observe_prompts(&ran(0, 64));
        for step in 0..64 {
            at_once.observe_prompts(&ran(64, 0));
            one_by_one.observe_prompts(&ran(step, 1));
        }
        for reading in [at_once, one_by_one] {
            let each = reading.each(64, Some(&costs()));
            assert!(each < 1.0, "{each} ns a token");
        }
    }
}
