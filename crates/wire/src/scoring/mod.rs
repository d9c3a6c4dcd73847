//! Scoring requests: how vLLM and `SGLang` are asked for log probabilities of given tokens.
//!
//! Beside `/v1/completions` with `prompt_logprobs`, which every vLLM has, both have a way of their own that computes no
//! more than is not in the cache: vLLM from 0.31 on `/inference/v1/generate` with `prompt_logprob_token_ids` (its
//! `docs/training/prompt_token_id_logprobs.md`), `SGLang` `/generate` with `logprob_start_len`.
//!
//! **Invariant:** what is read has one row for each token that was asked about, and only numbers that a logarithm of a
//! chance can be: none is above zero by more than rounding, none is NaN.

mod generate;
mod npy;
mod sglang;
#[cfg(test)]
mod tests;

pub use self::generate::{GenerateAsk, Generated, Matrix, read_generate, read_version};
pub use self::sglang::{SglangAsk, SglangRow, SglangScore, read_sglang};

/// Above zero by so many nats a logarithm of a chance is still taken for one: 32-bit floats round. What is further
/// above is a logit, as a server with `--logprobs-mode raw_logits` tells.
pub const ROUNDING: f32 = 1e-3;

/// Why an answer is no score.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScoringError {
    /// It is not the JSON that was expected.
    #[error("the score cannot be read: {0}")]
    Json(String),
    /// It has several answers, or none.
    #[error("`{0}` answers; expected 1")]
    Choices(usize),
    /// The server gave it up.
    #[error("the server gave the request up")]
    Aborted,
    /// The array is not base64.
    #[error("the array is not base64: {0}")]
    Base64(String),
    /// The array's text is longer than one of the expected shape.
    #[error("the array has `{found}` characters; expected at most {most}")]
    TooLong {
        /// Its length.
        found: usize,
        /// What one of the expected shape may have.
        most: usize,
    },
    /// The bytes are no array of `NumPy`'s, or cut off.
    #[error("the array has no header as `numpy.save` writes it: {0}")]
    Header(&'static str),
    /// The numbers are of another kind.
    #[error("the array's numbers are `{0}`; expected `<f4`")]
    Kind(String),
    /// Another shape than was asked for.
    #[error("the array is `{found}`; expected `({rows},{columns})`")]
    Shape {
        /// As its header has it.
        found: String,
        /// One for each token.
        rows: usize,
        /// One for each id that was asked about.
        columns: usize,
    },
    /// More or fewer bytes than the shape says.
    #[error("the array has `{found}` bytes of numbers; expected {expected}")]
    Length {
        /// As many as there are.
        found: usize,
        /// As many as the shape says.
        expected: usize,
    },
    /// Fewer rows than tokens.
    #[error("`{found}` scored tokens; expected at least {expected}")]
    Rows {
        /// As many as there are.
        found: usize,
        /// As many as were asked about.
        expected: usize,
    },
    /// A row is about another token.
    #[error("a score of token `{found}`; expected one of token {expected}")]
    Token {
        /// What was scored.
        found: u32,
        /// What was asked about.
        expected: u32,
    },
    /// No logarithm of a chance.
    #[error("`{0}` is no log probability; expected at most 0")]
    Number(f32),
}

impl From<serde_json::Error> for ScoringError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

/// A number as it is told, if it can be the logarithm of a chance.
fn logprob(number: f32) -> Result<f32, ScoringError> {
    if number <= ROUNDING { Ok(number.min(0.0)) } else { Err(ScoringError::Number(number)) }
}
