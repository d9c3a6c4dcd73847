//! `SGLang`'s `/generate`: tokens in, and of each how likely it was and which was the likeliest.

use std::borrow::Cow;

use overdraft_units::Tokens;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{ScoringError, logprob};

/// What is asked: how likely were the last tokens, and which would have been the likeliest?
#[derive(Clone, Copy, Debug)]
pub struct SglangAsk<'a> {
    /// All tokens.
    pub tokens: &'a [u32],
    /// So many of the last ones are asked about.
    pub last: usize,
    /// The salt that keeps the request's part of the prefix cache apart, if there is one.
    pub salt: Option<&'a str>,
}

#[derive(Serialize)]
struct Body<'a> {
    input_ids: &'a [u32],
    sampling_params: Sampling,
    return_logprob: bool,
    logprob_start_len: usize,
    top_logprobs_num: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_salt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_key: Option<&'a str>,
}

#[derive(Serialize)]
struct Sampling {
    max_new_tokens: u32,
    temperature: f32,
}

impl SglangAsk<'_> {
    /// The request's body. The salt stands there twice: `cache_salt` is new to this endpoint, and one that passes it
    /// over must not put the request where others look.
    pub fn to_json(&self) -> Vec<u8> {
        let body = Body {
            input_ids: self.tokens,
            sampling_params: Sampling { max_new_tokens: 1, temperature: 0.0 },
            return_logprob: true,
            // The first that is told has no chance: nothing is known of what is before it.
            logprob_start_len: self.tokens.len().saturating_sub(self.last + 1),
            top_logprobs_num: 1,
            stream: false,
            cache_salt: self.salt,
            extra_key: self.salt,
        };
        serde_json::to_vec(&body).expect("it has string keys and finite numbers")
    }
}

/// How likely a token was, and which was the likeliest. In nats; minus infinity where it cannot be said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SglangRow {
    /// Of the token that stands there.
    pub logprob: f32,
    /// The likeliest one.
    pub best: u32,
    /// Of that one.
    pub best_logprob: f32,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct SglangScore {
    /// One for each token that was asked about.
    pub rows: Vec<SglangRow>,
    /// Whether the server would end behind the last token.
    pub ends: bool,
    /// Tokens of the prompt as the server counts them, those that were cached, and those it said; where it tells.
    pub used: Option<[Tokens; 3]>,
}

/// As `[logprob, id, text]`; an infinite one is null.
type Entry = (Option<f32>, u32, IgnoredAny);

/// Reads what was answered to an [`SglangAsk`] about the tokens `asked`.
///
/// # Errors
/// What is no answer, or about other tokens, or has what are no log probabilities.
pub fn read_sglang(answer: &[u8], asked: &[u32]) -> Result<SglangScore, ScoringError> {
    #[derive(Deserialize)]
    struct Told<'a> {
        #[serde(borrow)]
        meta_info: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        input_token_logprobs: Vec<Entry>,
        input_top_logprobs: Vec<Option<Vec<Entry>>>,
        #[serde(borrow)]
        finish_reason: Option<Finish<'a>>,
        prompt_tokens: Option<u32>,
        cached_tokens: Option<u32>,
        completion_tokens: Option<u32>,
    }
    #[derive(Deserialize)]
    struct Finish<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let Told { meta_info: meta } = serde_json::from_slice(answer)?;
    let finish = meta.finish_reason.as_ref().map(|finish| finish.kind.as_ref());
    if finish == Some("abort") {
        return Err(ScoringError::Aborted);
    }
    let own = last(&meta.input_token_logprobs, asked.len())?;
    let top = last(&meta.input_top_logprobs, asked.len())?;
    let entries = asked.iter().zip(own.iter().zip(top));
    let rows = entries.map(|(&asked, (own, top))| row(asked, own, top.as_deref()));
    let rows = rows.collect::<Result<_, _>>()?;
    let counts =
        [meta.prompt_tokens, Some(meta.cached_tokens.unwrap_or(0)), meta.completion_tokens];
    let used = match counts {
        [Some(prompt), Some(cached), Some(said)] => Some([prompt, cached, said].map(Tokens::new)),
        _ => None,
    };
    Ok(SglangScore { rows, ends: finish == Some("stop"), used })
}

fn last<T>(all: &[T], count: usize) -> Result<&[T], ScoringError> {
    let rows = ScoringError::Rows { found: all.len(), expected: count };
    all.len().checked_sub(count).and_then(|first| all.get(first..)).ok_or(rows)
}

fn row(asked: u32, own: &Entry, top: Option<&[Entry]>) -> Result<SglangRow, ScoringError> {
    let &(number, found, _) = own;
    if found != asked {
        return Err(ScoringError::Token { found, expected: asked });
    }
    let none = ScoringError::Rows { found: 0, expected: 1 };
    let likeliest = top.and_then(<[Entry]>::first);
    let (Some(best_logprob), best) =
        likeliest.map(|&(number, id, _)| (number, id)).ok_or(none.clone())?
    else {
        return Err(none);
    };
    let logprob = logprob(number.unwrap_or(f32::NEG_INFINITY))?;
    Ok(SglangRow { logprob, best, best_logprob: self::logprob(best_logprob)? })
}
