//! Draft verification: the longest beginning of a draft that the target's scores accept.
//!
//! The target scores prompt and draft in one prefill; the longest accepted prefix is kept and the
//! target continues after it. Both are greedy: a token is accepted when it is the target's
//! likeliest. Then the whole equals the target's own answer, up to ties, which are counted. Where
//! the target reports some tokens only and not its likeliest, a token is accepted when no
//! unreported token can be likelier. Drawn tokens are not verified: rejection sampling needs the
//! draft's own probabilities after its filters. `docs/design/cascade.md#r8`.

use core::fmt;

use overdraft_units::TokenId;

use super::fixed_point::{ONE, decay, millionths};
use super::probability::{LogProb, Nats};

/// Log probabilities nearer than this are a tie: batches of another shape round differently.
pub const TIE: Nats = Nats::micronats(1_000);

/// Tolerance, of 2^24, of the sum of one position's probabilities: engines compute with 32-bit
/// floats, which lose some millionths of a nat, and log probabilities are truncated to millionths
/// here.
const SLACK: i64 = 1 << 11;

/// What the target makes of one token of the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// The target's likeliest token.
    pub best: TokenId,
    /// The log probability of that one.
    pub best_logprob: LogProb,
    /// The log probability of the draft's token.
    pub logprob: LogProb,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyError {
    /// The rows are not one for each token.
    Rows {
        /// So many there are.
        found: usize,
        /// So many tokens the draft has.
        expected: usize,
    },
    /// The chances that were told of one place are no chances: together they are more than one, or the draft's
    /// token is not among them.
    NoChances {
        /// Which of the draft's tokens stands there, counted from zero.
        place: usize,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { found, expected } => write!(
                out,
                "`{found}` scored tokens for a draft of `{expected}`, expected one for each; ask the target to score the whole draft"
            ),
            Self::NoChances { place } => write!(
                out,
                "what was told of the draft's token `{place}` are no chances, expected its own and together at most one; run the target with a `--logprobs-mode` of log probabilities"
            ),
        }
    }
}

impl core::error::Error for VerifyError {}

/// Where the target goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Nowhere: all of the draft was accepted and it had ended.
    Nowhere,
    /// Behind the accepted tokens, as it would alone.
    Behind,
    /// With this token, its likeliest where the draft went astray, and then as it would alone.
    With(TokenId),
    /// With another token than the draft's; which one was not told.
    Astray,
    /// As it would alone, perhaps with the draft's own token: that no other is likelier could not be shown.
    Unproven,
}

/// What is kept of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// So many of its tokens.
    pub accepted: usize,
    /// So many of those were not the likeliest, but as likely within [`TIE`].
    pub ties: usize,
    /// How the answer goes on.
    pub resume: Resume,
}

/// The longest beginning of a greedy `draft` that the target accepts, where it told its likeliest token at each place.
///
/// `ended` tells whether the draft had ended by itself behind its last token; the token that ends it, where there
/// is one, belongs to `draft`.
///
/// # Errors
/// Where there is not one row for each token.
pub fn verify(
    draft: &[TokenId],
    rows: &[TargetRow],
    ended: super::evidence::Finish,
) -> Result<Verified, VerifyError> {
    let (found, expected) = (rows.len(), draft.len());
    if found != expected {
        return Err(VerifyError::Rows { found, expected });
    }
    let mut ties = 0;
    for (accepted, (&token, row)) in draft.iter().zip(rows).enumerate() {
        if token == row.best {
            continue;
        }
        if TIE < Nats::margin(row.best_logprob, row.logprob) {
            return Ok(Verified { accepted, ties, resume: Resume::With(row.best) });
        }
        ties += 1;
    }
    Ok(Verified { accepted: expected, ties, resume: behind(ended) })
}

/// The longest beginning of a greedy `draft` that the target accepts for certain, where it told of some tokens at each
/// place and not which is its likeliest: `told` has, for each place, tokens with their log probabilities, each token
/// once and the draft's own among them.
///
/// A token that was not told has at most the chance that all told ones leave. So the draft's token is the likeliest
/// when none that was told is likelier (within [`TIE`]) and what they leave is no more than its own chance. A chance of
/// more than a half always is enough. What cannot be shown so is not accepted ([`Resume::Unproven`]).
///
/// # Errors
/// Where there is not one list for each token, or a list has no chances.
pub fn verify_told<Told>(
    draft: &[TokenId],
    told: &[Told],
    ended: super::evidence::Finish,
) -> Result<Verified, VerifyError>
where
    Told: AsRef<[(TokenId, LogProb)]>,
{
    let (found, expected) = (told.len(), draft.len());
    if found != expected {
        return Err(VerifyError::Rows { found, expected });
    }
    let mut kept = Verified { accepted: expected, ties: 0, resume: behind(ended) };
    // All places are looked at: a list that is none casts doubt on all of them.
    for (place, (&token, told)) in draft.iter().zip(told).enumerate().rev() {
        match likeliest(token, told.as_ref()).ok_or(VerifyError::NoChances { place })? {
            Likeliest::Own => {}
            Likeliest::Tied => kept.ties += 1,
            Likeliest::Other => {
                kept = Verified { accepted: place, ties: 0, resume: Resume::Astray };
            }
            Likeliest::Unknown => {
                kept = Verified { accepted: place, ties: 0, resume: Resume::Unproven };
            }
        }
    }
    Ok(kept)
}

/// What is known of the likeliest token at one place.
enum Likeliest {
    Own,
    /// Another by less than [`TIE`].
    Tied,
    Other,
    Unknown,
}

fn likeliest(token: TokenId, told: &[(TokenId, LogProb)]) -> Option<Likeliest> {
    let chance = |logprob: LogProb| decay(millionths(u64::from(logprob.get().unsigned_abs())));
    let &(_, own) = told.iter().find(|(id, _)| *id == token)?;
    let best = told.iter().map(|&(_, logprob)| logprob).max()?;
    let all = told.iter().map(|&(_, logprob)| chance(logprob)).sum::<i64>();
    if ONE + SLACK < all {
        return None;
    }
    let left = ONE - all + SLACK;
    Some(if TIE < Nats::margin(best, own) {
        Likeliest::Other
    } else if chance(own) < left {
        Likeliest::Unknown
    } else if own < best {
        Likeliest::Tied
    } else {
        Likeliest::Own
    })
}

/// How the answer goes on behind a draft that was accepted whole.
fn behind(ended: super::evidence::Finish) -> Resume {
    if ended == super::evidence::Finish::Stop { Resume::Nowhere } else { Resume::Behind }
}
