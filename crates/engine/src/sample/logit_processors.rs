//! Logit processors: `logit_bias`, penalties and masked end tokens.
//!
//! All edits are sparse: a handful of end tokens, at most a few hundred biases, the distinct tokens
//! of the sequence. Each edit saves the old value, so that the raw row can be restored.

use indexmap::IndexMap;
use overdraft_units::{TokenId, Tokens};

use super::scan;
use crate::request::Sampling;

/// Which tokens a sequence holds, as far as its penalties need to know.
#[derive(Clone, Debug)]
pub(super) struct History {
    position: u64,
    generated: Tokens,
    /// Empty unless a penalty is set.
    seen: IndexMap<TokenId, Seen>,
    counts: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Occurrences in the completion; the prompt's do not count for presence and frequency.
    generated: u32,
}

/// Changes to single logits.
#[derive(Clone, Debug)]
pub(super) struct Edits {
    /// Tokens that may not come before `min_tokens`.
    ends: Vec<TokenId>,
    min_tokens: Tokens,
    bias: Vec<(TokenId, f32)>,
    penalties: Penalties,
    undo: Vec<(usize, f32)>,
}

#[derive(Clone, Copy, Debug)]
struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
}

impl History {
    pub(super) fn new(sampling: &Sampling, prompt: &[TokenId]) -> Self {
        let counts = Penalties::new(sampling).any();
        let seen = if counts {
            prompt.iter().map(|&token| (token, Seen::default())).collect()
        } else {
            IndexMap::new()
        };
        let position = u64::try_from(prompt.len()).expect("a length fits 64 bits");
        Self { position, generated: Tokens::ZERO, seen, counts }
    }

    pub(super) fn push(&mut self, token: TokenId) {
        self.position += 1;
        self.generated += Tokens::new(1);
        if self.counts {
            self.seen.entry(token).or_default().generated += 1;
        }
    }

    /// Position of the token that comes next, counted from the start of the prompt.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}

impl Edits {
    pub(super) fn new(sampling: &Sampling, ends: &[TokenId]) -> Self {
        Self {
            ends: ends.iter().chain(&sampling.stop_tokens).copied().collect(),
            min_tokens: sampling.min_tokens,
            bias: sampling.logit_bias.clone(),
            penalties: Penalties::new(sampling),
            undo: Vec::new(),
        }
    }

    /// Masks, biases and penalises, in this order.
    pub(super) fn apply(&mut self, row: &mut [f32], history: &History) {
        self.undo.clear();
        if history.generated < self.min_tokens {
            for &token in &self.ends {
                change(row, &mut self.undo, token, |_| f32::NEG_INFINITY);
            }
        }
        for &(token, bias) in &self.bias {
            change(row, &mut self.undo, token, |logit| logit + bias);
        }
        for (&token, seen) in &history.seen {
            let penalties = self.penalties;
            change(row, &mut self.undo, token, |logit| penalties.penalise(logit, seen.generated));
        }
    }

    /// Takes the last [`apply`](Self::apply) back.
    pub(super) fn undo(&mut self, row: &mut [f32]) {
        // Backwards, because a token may have been changed twice.
        for (index, logit) in self.undo.drain(..).rev() {
            row[index] = logit;
        }
    }
}

impl Penalties {
    fn new(sampling: &Sampling) -> Self {
        Self {
            repetition: sampling.repetition_penalty,
            presence: sampling.presence_penalty,
            frequency: sampling.frequency_penalty,
        }
    }

    #[expect(clippy::float_cmp, reason = "exactly these values mean that a penalty is off")]
    fn any(self) -> bool {
        self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0
    }

    /// What is out stays out, and all else stays a finite number: a tiny or a huge penalty would make
    /// logits infinite, and two infinite ones have no difference to draw by.
    fn penalise(self, logit: f32, generated: u32) -> f32 {
        if logit == f32::NEG_INFINITY {
            return logit;
        }
        let repeated = if logit > 0.0 { logit / self.repetition } else { logit * self.repetition };
        let penalised = if generated == 0 {
            repeated
        } else {
            repeated - self.frequency * single(generated) - self.presence
        };
        penalised.clamp(f32::MIN, f32::MAX)
    }
}

fn change(
    row: &mut [f32],
    undo: &mut Vec<(usize, f32)>,
    token: TokenId,
    edit: impl Fn(f32) -> f32,
) {
    let index = scan::place(token);
    if let Some(logit) = row.get_mut(index) {
        undo.push((index, *logit));
        *logit = edit(*logit);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count past 2^24 penalises enough as it is")]
fn single(count: u32) -> f32 {
    count as f32
}
