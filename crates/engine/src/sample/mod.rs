//! Token sampler: chooses the next token from a row of logits.
//!
//! The order is vLLM's: log probabilities are read from the model's own distribution; then the
//! logits are edited (end tokens masked below `min_tokens`, `logit_bias`, penalties), divided by the
//! temperature, filtered (`min_p`, `top_k`, `top_p`), and one token is drawn. Edits touch few
//! entries and are undone, so the raw row need not be copied.
//!
//! **Invariant:** a draw is a function of the row, the tokens so far, the seed and the position;
//! not of the batch, of preemption, or of the order in which sequences are served. For a request
//! without a seed it also depends on the draft model's tokens; its distribution does not.

mod check;
mod distribution;
mod draw;
mod guess;
mod logit_processors;
mod logprobs;
mod scan;
mod select;
#[cfg(test)]
mod tests;

use overdraft_units::TokenId;

pub use self::check::{
    LOGPROBS_MAX, STOP_BYTES_MAX, STOP_STRINGS_MAX, STOP_TOKENS_MAX, SamplingError,
};
pub use self::distribution::Distribution;
pub use self::guess::Guess;
pub use self::logprobs::position_logprobs;

use self::distribution::Filter;
use self::draw::Purpose;
use self::logit_processors::{Edits, History};
use crate::request::{PositionLogprobs, Sampling};

/// Temperatures below this are greedy: dividing by them would overflow (vLLM's bound).
pub const GREEDY_BELOW: f32 = 1e-5;

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    edits: Edits,
    history: History,
    filter: Filter,
    seed: u64,
    /// Whether the client chose the seed: then the completion is a function of it.
    seeded: bool,
    logprobs: Option<u32>,
    /// Mass per stretch of the vocabulary, kept to save the allocation.
    masses: Vec<f64>,
}

/// A chosen token.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which.
    pub token: TokenId,
    /// When asked for: of the model's own distribution.
    pub logprobs: Option<PositionLogprobs>,
}

/// The row offers nothing to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model gave no usable logits at position `{position}`; expected at least one number")]
pub struct NoCandidate {
    /// Position of the token that could not be chosen, counted from the start of the prompt.
    pub position: u64,
}

impl Sampler {
    /// A sampler for a sequence that starts with `prompt`; `ends` are the model's own end tokens.
    ///
    /// `sampling` is expected to have passed [`Sampling::check`].
    pub fn new(sampling: &Sampling, prompt: &[TokenId], ends: &[TokenId], seed: u64) -> Self {
        Self {
            edits: Edits::new(sampling, ends),
            history: History::new(sampling, prompt),
            filter: Filter::new(sampling),
            seed,
            seeded: sampling.seed.is_some(),
            logprobs: sampling.logprobs,
            masses: Vec::new(),
        }
    }

    /// Chooses the token that follows the tokens so far; the row is left as it was.
    ///
    /// # Errors
    /// [`NoCandidate`] when no entry of the row is a number above minus infinity.
    pub fn choose(&mut self, row: &mut [f32]) -> Result<Choice, NoCandidate> {
        self.edits.apply(row, &self.history);
        let token = self.pick(row, self.history.position());
        self.edits.undo(row);
        let token = token.ok_or(NoCandidate { position: self.history.position() })?;
        let logprobs = self.logprobs.map(|count| position_logprobs(row, token, count));
        Ok(Choice { token, logprobs })
    }

    /// Notes that `token` now follows the sequence.
    pub fn accept(&mut self, token: TokenId) {
        self.history.push(token);
    }

    /// The distribution that [`choose`](Self::choose) draws from, for speculation, which compares
    /// two of them. The row is left as it was.
    ///
    /// # Errors
    /// [`NoCandidate`] as for [`choose`](Self::choose).
    pub fn distribution(&mut self, row: &mut [f32]) -> Result<Distribution, NoCandidate> {
        self.edits.apply(row, &self.history);
        let distribution = self.filter.distribution(row);
        self.edits.undo(row);
        distribution.ok_or(NoCandidate { position: self.history.position() })
    }

    fn pick(&mut self, row: &[f32], position: u64) -> Option<TokenId> {
        if self.filter.is_greedy() {
            return scan::argmax(row);
        }
        let uniform = draw::uniform(self.seed, position, Purpose::Choose);
        if self.filter.keeps_all() {
            return draw::from_row(row, self.filter.temperature(), uniform, &mut self.masses);
        }
        Some(self.filter.distribution(row)?.at(uniform))
    }
}
