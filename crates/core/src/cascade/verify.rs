//! How much of the draft would the target have said?
//!
//! The target scores prompt and draft in one prefill; the longest accepted beginning is kept and the target
//! goes on behind it. At temperature zero a token is accepted when it is the target's likeliest: then the
//! whole is what the target alone would have said, up to ties, which are counted. Above zero the rule of speculative
//! sampling needs the draft's own probabilities, after its filters; without them nothing is accepted by
//! guesswork. `docs/design/cascade.md#r8`.

use core::fmt;

use overdraft_units::TokenId;

use super::chance::{LogProb, Nats};
use super::fixed::{decay, millionths};

/// Two log probabilities nearer to each other are a tie: batches of another shape round otherwise.
pub const TIE: Nats = Nats::micronats(1_000);

/// What the target makes of one token of the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetRow {
    /// The token that the target would have said: its likeliest.
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
    let whole = ended == super::evidence::Finish::Stop;
    let resume = if whole { Resume::Nowhere } else { Resume::Behind };
    Ok(Verified { accepted: expected, ties, resume })
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
    i64::try_from(drawn >> (u64::BITS - super::fixed::BITS)).unwrap_or(i64::MAX) < parts
}
