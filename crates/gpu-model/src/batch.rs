//! Batch: the work of a step, as far as its time depends on it.
//!
//! Time depends on sums alone, so a batch is a handful of them and any number of sequences costs the
//! same memory.

use overdraft_units::Tokens;

/// One sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Positions before it that are in the cache.
    pub before: Tokens,
    /// Positions computed, at least one.
    pub length: Tokens,
    /// Whether a token is sampled at its end.
    pub samples: bool,
}

/// The sequences of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Positions computed, of prompts and of completions.
    pub(crate) rows: f64,
    /// Sequences.
    pub(crate) sequences: f64,
    /// Sequences of which a token is sampled.
    pub(crate) sampled: f64,
    /// Sequences that decode.
    pub(crate) decodes: f64,
    /// Positions whose keys and values the decoding sequences read.
    pub(crate) decode_context: f64,
    /// Those of them that another of these sequences reads as well, where that is known.
    pub(crate) shared_context: f64,
    /// Sequences that compute their prompt, or a part of it.
    pub(crate) prefills: f64,
    /// Positions computed of prompts.
    pub(crate) prefill_rows: f64,
    /// Sum over prefills of q (c + q/2): pairs of positions that attend.
    pub(crate) prefill_pairs: f64,
}

impl Batch {
    /// A step that computes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sequence. One position is a decode, more are a prefill.
    pub fn push(&mut self, chunk: Chunk) {
        let (before, length) = (f64::from(chunk.before.get()), f64::from(chunk.length.get()));
        self.rows += length;
        self.sequences += 1.0;
        self.sampled += if chunk.samples { 1.0 } else { 0.0 };
        if chunk.length <= Tokens::new(1) {
            self.decodes += 1.0;
            self.decode_context += before + 1.0;
        } else {
            self.prefills += 1.0;
            self.prefill_rows += length;
            self.prefill_pairs += length * (before + length / 2.0);
        }
    }

    /// Adds a sequence that computes its newest position and so many guesses behind it. All of them
    /// read the same keys and values, at once, and each yields a token.
    pub fn push_verified(&mut self, before: Tokens, guesses: Tokens) {
        let rows = f64::from(guesses.get()) + 1.0;
        self.rows += rows;
        self.sequences += 1.0;
        self.sampled += rows;
        self.decodes += 1.0;
        self.decode_context += f64::from(before.get()) + rows;
    }

    /// All positions that the decoding sequences read lie in pages of so many tokens, each counted once.
    pub fn share(&mut self, distinct: Tokens) {
        self.shared_context = (self.decode_context - f64::from(distinct.get())).max(0.0);
    }

    /// Positions computed, of prompts and of completions.
    pub const fn rows(&self) -> f64 {
        self.rows
    }

    /// Sequences.
    pub const fn sequences(&self) -> f64 {
        self.sequences
    }

    /// Sequences that decode.
    pub const fn decodes(&self) -> f64 {
        self.decodes
    }

    /// Positions whose keys and values the decoding sequences read.
    pub const fn decode_context(&self) -> f64 {
        self.decode_context
    }

    /// Whether nothing is computed.
    pub fn is_empty(&self) -> bool {
        self.sequences <= 0.0
    }
}

impl Extend<Chunk> for Batch {
    fn extend<T: IntoIterator<Item = Chunk>>(&mut self, chunks: T) {
        chunks.into_iter().for_each(|chunk| self.push(chunk));
    }
}

impl FromIterator<Chunk> for Batch {
    fn from_iter<T: IntoIterator<Item = Chunk>>(chunks: T) -> Self {
        let mut batch = Self::new();
        batch.extend(chunks);
        batch
    }
}
