//! Admission cost: what new sequences cost a batch while their prompts are prefilled.
//!
//! A new sequence yields no tokens during its prefill, and a draft model must prefill its prompt,
//! too (`docs/design/speculation.md#r3`).

use super::costs::{Nanos, float};
use super::prices::Ran;

/// Time constant of the fading, in steps.
const BEGINNINGS_MEMORY: u64 = 128;
/// Time constant for the draft model's prefill, in steps.
const READING_MEMORY: u64 = 256;

/// How often a step has a new sequence in place of one that decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginnings {
    /// Sequences that began beside others that decoded, in 65,536ths.
    begun: u64,
    /// Tokens that came meanwhile, in as many.
    tokens: u64,
}

/// The draft model's time for prefilling tokens that the target has computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Spent on it, of late.
    reads: Nanos,
    /// Tokens that the sequences it guessed for emitted meanwhile.
    tokens: u64,
    /// Of those, the ones since the last step.
    fresh: u64,
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

    /// A step without the draft model: what is known of reading gets old.
    pub(super) fn forget(&mut self) {
        self.reads -= self.reads / (4 * READING_MEMORY);
    }

    /// Nanoseconds of it for each token, where so many sequences decode. That they all begin together is not
    /// mistaken for a rate: what they bring is told from when it is spread over as many steps as are
    /// remembered.
    pub(super) fn each(self, sequences: u32) -> f64 {
        let least = READING_MEMORY * u64::from(sequences);
        float(self.reads) / float(self.tokens.max(least).max(1))
    }
}
