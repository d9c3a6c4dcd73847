//! Draft verification: speculative sampling accepts the draft's prefix by the target's scores.
//!
//! The target scores prompt and draft in one prefill; the longest accepted prefix is kept and the
//! target continues after it. At temperature zero (greedy) a token is accepted when it is the
//! target's likeliest: then the whole equals the target's own answer, up to ties, which are
//! counted. Above zero the rule is rejection sampling, which needs the draft's own probabilities
//! after its filters; without them nothing is accepted. Where the target reports some tokens only
//! and not its likeliest, a token is accepted when no unreported token can be likelier.
//! `docs/design/cascade.md#r8`.

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

/// By which rule tokens are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule<'draws> {
    /// Both are greedy.
    Greedy,
    /// Both draw from their whole distribution at temperature one.
    Drawn {
        /// The draft's log probability of each of its tokens, as it was drawn.
        draft: Option<&'draws [LogProb]>,
        /// A number for each token, drawn evenly from all 64-bit numbers.
        numbers: &'draws [u64],
    },
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyError {
    /// The rows, probabilities or numbers are not one for each token.
    Rows {
        /// So many there are.
        found: usize,
        /// So many tokens the draft has.
        expected: usize,
    },
    /// Tokens were drawn, and the draft's own probabilities are not known.
    DraftUnknown,
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
            Self::DraftUnknown => write!(
                out,
                "a drawn draft without its own probabilities, expected one for each token; run the draft pool with processed log probabilities or at temperature 0"
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
    /// With a token drawn from what the target has and the draft lacks, where the draft said this one. See
    /// [`keeps_rest`].
    Rest(TokenId),
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

/// The longest beginning of `draft` that the target accepts.
///
/// `finish` tells whether the draft had ended by itself behind its last token; the token that ends it, where there
/// is one, belongs to `draft`.
///
/// # Errors
/// Where there is not one row for each token, or the rule lacks what it needs.
pub fn verify(
    draft: &[TokenId],
    rows: &[TargetRow],
    rule: Rule<'_>,
    ended: super::evidence::Finish,
) -> Result<Verified, VerifyError> {
    let expected = draft.len();
    let same = |found: usize| {
        if found == expected { Ok(()) } else { Err(VerifyError::Rows { found, expected }) }
    };
    same(rows.len())?;
    if let Rule::Drawn { draft, numbers } = rule {
        same(draft.ok_or(VerifyError::DraftUnknown)?.len())?;
        same(numbers.len())?;
    }
    let mut ties = 0;
    for (place, (&token, row)) in draft.iter().zip(rows).enumerate() {
        let resume = match rule {
            Rule::Greedy if token == row.best => continue,
            Rule::Greedy if Nats::margin(row.best_logprob, row.logprob) <= TIE => {
                ties += 1;
                continue;
            }
            Rule::Greedy => Resume::With(row.best),
            Rule::Drawn { draft, numbers } => {
                let known = draft.and_then(|known| known.get(place)).copied();
                let known = known.unwrap_or(LogProb::CERTAIN);
                if accepts(row.logprob, known, numbers[place]) {
                    continue;
                }
                Resume::Rest(token)
            }
        };
        return Ok(Verified { accepted: place, ties, resume });
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

/// Whether a token of that log probability under target and draft is kept: with the chance `min(1, p/q)`.
pub fn accepts(target: LogProb, draft: LogProb, drawn: u64) -> bool {
    if draft <= target {
        return true;
    }
    let ratio = decay(millionths(u64::from(draft.get().abs_diff(target.get()))));
    below(drawn, ratio)
}

/// Whether a token that the target drew in place of a rejected one is kept: with the chance `max(0, 1 - q/p)`.
/// Drawing until one is kept draws from what the target has and the draft lacks, exactly.
pub fn keeps_rest(target: LogProb, draft: LogProb, drawn: u64) -> bool {
    if target <= draft {
        return false;
    }
    !below(drawn, decay(millionths(u64::from(target.get().abs_diff(draft.get())))))
}

/// Whether an even draw falls below so many of 2^24.
fn below(drawn: u64, parts: i64) -> bool {
    i64::try_from(drawn >> (u64::BITS - super::fixed_point::BITS)).unwrap_or(i64::MAX) < parts
}
