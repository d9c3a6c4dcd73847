//! A request to `/v1/completions`.
//!
//! A prompt is text or token ids; several prompts make one request with several choices.
//! **Invariant:** there is at least one prompt, and no token prompt is empty.

use overdraft_units::TokenId;
use serde_json::Value;

use super::fields::{Fields, mismatch, parse_body};
use super::options::{LOGPROBS_MAX, Options, token_ids};
use crate::error::ApiError;

/// Prompts in one request at most.
pub const PROMPTS_MAX: usize = 256;
/// OpenAI's default length of a completion.
const MAX_TOKENS_DEFAULT: u32 = 16;

/// A checked completion request.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// What it has in common with chats.
    pub options: Options,
    /// What is to be completed.
    pub prompts: Vec<Prompt>,
    /// With `Some(k)`: log probabilities of the chosen tokens and of the `k` likeliest.
    pub logprobs: Option<u32>,
    /// Whether the answer begins with the prompt.
    pub echo: bool,
    /// Whether the tokenizer adds its control tokens to a text prompt.
    pub add_special_tokens: bool,
    /// The form the answer must have, as it came.
    pub response_format: Option<Value>,
}

/// What is to be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text, to be tokenized.
    Text(String),
    /// Tokens, taken as they are.
    Tokens(Vec<TokenId>),
}

impl CompletionRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// 400 that names the field at fault.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = parse_body(body)?;
        let prompts = prompts(&mut fields)?;
        let mut options = Options::take(&mut fields)?;
        let echo = fields.flag("echo")?.unwrap_or(false);
        if options.ending.max_tokens == Some(0) && !echo {
            let message = "`0` is out of range for `max_tokens`; expected one or more, or `echo`";
            return Err(ApiError::invalid("max_tokens", message));
        }
        options.ending.max_tokens.get_or_insert(MAX_TOKENS_DEFAULT.max(options.ending.min_tokens));
        refuse_suffix(&mut fields)?;
        Ok(Self {
            options,
            prompts,
            logprobs: fields.count("logprobs", LOGPROBS_MAX)?,
            echo,
            add_special_tokens: fields.flag("add_special_tokens")?.unwrap_or(true),
            response_format: fields.take("response_format"),
        })
    }
}

fn refuse_suffix(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.text("suffix")? {
        Some(suffix) if !suffix.is_empty() => {
            let message = "`suffix` is not served; expected the prompt alone";
            Err(ApiError::invalid(fields.path("suffix"), message))
        }
        _ => Ok(()),
    }
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, ApiError> {
    const EXPECTED: &str = "a string, an array of strings, of token ids, or of arrays of token ids";
    let path = fields.path("prompt");
    let prompts = match fields.take("prompt") {
        None => {
            let message = format!("`{path}` is missing; expected {EXPECTED}");
            return Err(ApiError::invalid(path, message));
        }
        Some(Value::String(text)) => vec![Prompt::Text(text)],
        Some(Value::Array(items)) if items.first().is_some_and(Value::is_number) => {
            vec![Prompt::Tokens(token_ids(&path, &items)?)]
        }
        Some(Value::Array(items)) => {
            let prompt = |(index, item)| prompt(&format!("{path}[{index}]"), item);
            items.into_iter().enumerate().map(prompt).collect::<Result<Vec<_>, _>>()?
        }
        Some(other) => return Err(mismatch(&path, &other, EXPECTED)),
    };
    if prompts.is_empty() || prompts.len() > PROMPTS_MAX {
        let message =
            format!("`{path}` has {} prompts; expected 1 to {PROMPTS_MAX}", prompts.len());
        return Err(ApiError::invalid(path, message));
    }
    Ok(prompts)
}

fn prompt(path: &str, value: Value) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(items) if items.is_empty() => {
            let message = format!("`{path}` is empty; expected at least one token id");
            Err(ApiError::invalid(path, message))
        }
        Value::Array(items) => Ok(Prompt::Tokens(token_ids(path, &items)?)),
        other => Err(mismatch(path, &other, "a string or an array of token ids")),
    }
}
