//! Draft verification: rejection sampling of drafted tokens (speculative sampling).
//!
//! The output distribution is the same as without drafts. There are two methods:
//!
//! - *Drawn together*: the token is chosen as ever, and the guess is right when it is the same one. That
//!   is all there is to do when the guess was certain (greedy, or looked up). A request with a seed
//!   takes this way always: the draft draws with the same number as the target will, so they agree
//!   often, and the completion is the seed's own, whatever was guessed.
//! - *Rejection*: the guess `x` was drawn from a distribution `q` that is known. It is kept with
//!   probability `min(1, p(x)/q(x))`, else one is drawn from what `p` has and `q` lacks. More guesses
//!   are kept, and each draw has a number of its own, so that none depends on another.
//!
//! See `docs/design/speculation.md#r8`.

use overdraft_scheduler::speculate::Confidence;
use overdraft_units::TokenId;

use super::distribution::Distribution;
use super::draw::{self, Purpose};
use super::{Choice, NoCandidate, Sampler, position_logprobs};

/// A token that may come, and how it was come by.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Which.
    pub token: TokenId,
    /// What it was drawn from; `None` when it was certain or is drawn together with the target.
    pub from: Option<Distribution>,
    /// How likely a draft model held the likeliest token there, where anybody asked.
    pub confidence: Option<Confidence>,
}

impl Guess {
    /// A token that nothing was drawn for.
    pub fn certain(token: TokenId) -> Self {
        Self { token, from: None, confidence: None }
    }
}

impl Sampler {
    /// Guesses the token `ahead` places behind the next one from a draft model's row, which is left
    /// as it was. Penalties are those of the tokens so far: guesses before it do not count.
    ///
    /// # Errors
    /// [`NoCandidate`] as for [`choose`](Self::choose).
    pub fn guess(&mut self, row: &mut [f32], ahead: u64) -> Result<Guess, NoCandidate> {
        let position = self.history.position() + ahead;
        self.edits.apply(row, &self.history);
        let guess = if self.filter.is_greedy() || self.seeded {
            self.pick(row, position).map(Guess::certain)
        } else {
            self.filter.distribution(row).map(|from| {
                let token = from.at(draw::uniform(self.seed, position, Purpose::Guess));
                Guess { from: Some(from), ..Guess::certain(token) }
            })
        };
        self.edits.undo(row);
        guess.ok_or(NoCandidate { position })
    }

    /// Chooses the token that follows the tokens so far, given a guess at it. It is the guess or
    /// another; either way it is distributed as [`choose`](Self::choose) would have it.
    ///
    /// # Errors
    /// [`NoCandidate`] as for [`choose`](Self::choose).
    pub fn verify(
        &mut self,
        row: &mut [f32],
        guess: Option<&Guess>,
    ) -> Result<Choice, NoCandidate> {
        let Some(Guess { token, from: Some(from), confidence: _ }) = guess else {
            return self.choose(row);
        };
        let target = self.distribution(row)?;
        let position = self.history.position();
        let uniform = |purpose| draw::uniform(self.seed, position, purpose);
        let (wanted, offered) = (target.probability(*token), from.probability(*token));
        let kept = uniform(Purpose::Keep) * f64::from(offered) < f64::from(wanted);
        let token = if kept {
            *token
        } else {
            // Rounding may leave nothing where the two are all but equal.
            let rest = target.without(from);
            rest.as_ref().unwrap_or(&target).at(uniform(Purpose::Instead))
        };
        let logprobs = self.logprobs.map(|count| position_logprobs(row, token, count));
        Ok(Choice { token, logprobs })
    }
}
