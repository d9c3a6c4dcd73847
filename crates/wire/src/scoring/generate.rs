//! vLLM's `/inference/v1/generate`: tokens in, and how likely the asked ones were.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::npy::{self, HEADER_MAX, NUMBER};
use super::{ScoringError, logprob};

/// What is asked: how likely are, at each of the last places, these tokens?
#[derive(Clone, Copy, Debug)]
pub struct GenerateAsk<'a> {
    /// The model's name.
    pub model: &'a str,
    /// All tokens, the last `rows.len()` of them being asked about.
    pub tokens: &'a [u32],
    /// For each of those the ids whose chances are wanted; shorter lists are filled up.
    pub rows: &'a [Vec<u32>],
    /// The salt that the client sent for the prefix cache, if any.
    pub salt: Option<&'a str>,
}

/// Fills a list up; the server tells minus infinity of it.
const NO_TOKEN: i64 = -1;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    token_ids: &'a [u32],
    sampling_params: Sampling,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_salt: Option<&'a str>,
}

#[derive(Serialize)]
struct Sampling {
    max_tokens: u32,
    temperature: f32,
    /// What is cached need not be computed again; without it the server passes its cache by.
    skip_reading_prefix_cache: bool,
    prompt_logprob_start: usize,
    prompt_logprob_token_ids: Vec<Vec<i64>>,
}

impl GenerateAsk<'_> {
    /// The longest list of ids: so many columns the answer has.
    pub fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// The request's body. The row of a token is that of the one before it, which predicts it: there must be one.
    pub fn to_json(&self) -> Vec<u8> {
        let columns = self.columns();
        let filled = |row: &Vec<u32>| {
            let mut ids: Vec<i64> = row.iter().map(|&id| id.into()).collect();
            ids.resize(columns, NO_TOKEN);
            ids
        };
        let body = Body {
            model: self.model,
            token_ids: self.tokens,
            sampling_params: Sampling {
                max_tokens: 1,
                temperature: 0.0,
                skip_reading_prefix_cache: false,
                prompt_logprob_start: self.tokens.len().saturating_sub(self.rows.len() + 1),
                prompt_logprob_token_ids: self.rows.iter().map(filled).collect(),
            },
            stream: false,
            cache_salt: self.salt,
        };
        serde_json::to_vec(&body).expect("it has string keys and finite numbers")
    }
}

/// Log probabilities in nats, minus infinity where a token cannot be said.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    columns: usize,
    numbers: Vec<f32>,
}

impl Matrix {
    /// For each place the numbers in the order of the ids that were asked about; behind those of a shorter list
    /// stands what fills it up.
    pub fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.columns)
    }
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// `None` where the server has not looked at all places, as happens when its cache reaches beyond the first.
    pub matrix: Option<Matrix>,
    /// Whether the server would end behind the last token.
    pub ends: bool,
}

/// Reads what was answered to a [`GenerateAsk`] of so many rows and columns, neither of them zero.
///
/// # Errors
/// What is no answer, and arrays of another kind or shape, or of what are no log probabilities.
pub fn read_generate(
    answer: &[u8],
    rows: usize,
    columns: usize,
) -> Result<Generated, ScoringError> {
    #[derive(Deserialize)]
    struct Told<'a> {
        choices: Vec<Choice>,
        #[serde(borrow)]
        prompt_token_id_logprobs: Option<Cow<'a, str>>,
    }
    #[derive(Deserialize)]
    struct Choice {
        finish_reason: Option<String>,
    }
    let told: Told<'_> = serde_json::from_slice(answer)?;
    let [choice] = told.choices.as_slice() else {
        return Err(ScoringError::Choices(told.choices.len()));
    };
    let read = |text: Cow<'_, str>| matrix(&text, rows, columns);
    Ok(Generated {
        matrix: told.prompt_token_id_logprobs.map(read).transpose()?,
        ends: choice.finish_reason.as_deref() == Some("stop"),
    })
}

fn matrix(text: &str, rows: usize, columns: usize) -> Result<Matrix, ScoringError> {
    let bytes = rows.saturating_mul(columns).saturating_mul(NUMBER).saturating_add(2 * HEADER_MAX);
    let most = bytes.div_ceil(3).saturating_mul(4);
    if most < text.len() {
        return Err(ScoringError::TooLong { found: text.len(), most });
    }
    let bytes = STANDARD.decode(text).map_err(|error| ScoringError::Base64(error.to_string()))?;
    let numbers = npy::read(&bytes, rows, columns)?;
    let numbers = numbers.into_iter().map(logprob).collect::<Result<_, _>>()?;
    Ok(Matrix { columns: columns.max(1), numbers })
}

/// The first two numbers of the version that vLLM's `/version` tells, as in `0.31.1rc2.dev7+g0a1b2c3`.
pub fn read_version(answer: &[u8]) -> Option<(u32, u32)> {
    #[derive(Deserialize)]
    struct Told<'a> {
        #[serde(borrow)]
        version: Cow<'a, str>,
    }
    let told: Told<'_> = serde_json::from_slice(answer).ok()?;
    let mut numbers = told.version.trim_start_matches('v').splitn(3, '.');
    let mut next = || {
        let text = numbers.next()?;
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse().ok()
    };
    Some((next()?, next()?))
}
