//! Token chunks: an answer token by token, with ids, log probabilities and alternatives, as engines report them.
//!
//! Who judges or continues an answer needs more of a chunk than who relays it: chats and completions name the same
//! things in two forms, which are one here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::chunk::{Filled, NotAnAnswer};

/// What an event's data or a whole answer says of its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChunk<'a> {
    /// The prompt's tokens as the worker made them, where it says so.
    pub prompt: Option<Vec<u32>>,
    /// The choices in it.
    pub choices: Vec<TokenChoice<'a>>,
}

/// One choice in a chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChoice<'a> {
    /// Text for the reader; nothing where none is told, which is not the same as an empty one.
    pub text: Option<Cow<'a, str>>,
    /// Whether it calls tools.
    pub has_calls: bool,
    /// Whether it has reasoning content in a field of its own.
    pub has_reasoning: bool,
    /// Why it ended, in the engine's word.
    pub finish: Option<Cow<'a, str>>,
    /// The ids of its tokens, where the engine gives them.
    pub ids: Option<Vec<u32>>,
    /// The tokens whose log probabilities are told.
    pub tokens: Vec<TokenTold<'a>>,
}

/// One token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenTold<'a> {
    /// The token's text, or its name by its id.
    pub token: Cow<'a, str>,
    /// Its log probability; nothing where it is null, as for the first token of a prompt.
    pub logprob: Option<f64>,
    /// The likeliest tokens in its place, with their log probabilities, in the engine's order.
    pub alternatives: Vec<(Cow<'a, str>, f64)>,
}

impl<'a> TokenChunk<'a> {
    /// Reads an event's data or a whole answer.
    ///
    /// ```
    /// use overdraft_wire::answer::TokenChunk;
    ///
    /// let data = br#"{"choices":[{"text":"hi","token_ids":[7],
    ///     "logprobs":{"tokens":["hi"],"token_logprobs":[-0.5]}}]}"#;
    /// let chunk = TokenChunk::parse(data).unwrap();
    /// let choice = &chunk.choices[0];
    /// assert_eq!(choice.ids.as_deref(), Some(&[7][..]));
    /// assert_eq!(choice.tokens[0].logprob, Some(-0.5));
    /// ```
    ///
    /// # Errors
    /// [`NotAnAnswer`] where it is no JSON, or not of that shape.
    pub fn parse(data: &'a [u8]) -> Result<Self, NotAnAnswer> {
        let raw: Raw<'a> = serde_json::from_slice(data).map_err(NotAnAnswer::from)?;
        let mut prompt = raw.prompt_token_ids;
        let mut choices = Vec::new();
        for mut choice in raw.choices.unwrap_or_default() {
            prompt = prompt.or_else(|| choice.prompt_token_ids.take());
            choices.push(choice.into());
        }
        Ok(Self { prompt, choices })
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    choices: Option<Vec<RawChoice<'a>>>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct RawChoice<'a> {
    #[serde(borrow)]
    delta: Option<RawDelta<'a>>,
    #[serde(borrow)]
    message: Option<RawDelta<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    logprobs: Option<Logprobs<'a>>,
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct RawDelta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    tool_calls: Option<Filled>,
    function_call: Option<IgnoredAny>,
}

impl<'a> From<RawChoice<'a>> for TokenChoice<'a> {
    fn from(raw: RawChoice<'a>) -> Self {
        let mut choice = Self {
            text: raw.text,
            finish: raw.finish_reason,
            ids: raw.token_ids,
            tokens: raw.logprobs.map(Logprobs::told).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(delta) = raw.delta.or(raw.message) {
            let reasoning = delta.reasoning_content.or(delta.reasoning);
            // Whole answers of vLLM have an empty list where nothing is called.
            let calls = delta.tool_calls.is_some_and(|calls| calls.0);
            choice.has_calls = calls || delta.function_call.is_some();
            choice.has_reasoning = reasoning.is_some_and(|text| !text.is_empty());
            choice.text = delta.content.or(choice.text);
        }
        choice
    }
}

/// Chat's form and completions'.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "they are the protocol's")]
struct Logprobs<'a> {
    #[serde(borrow)]
    content: Option<Vec<ChatToken<'a>>>,
    #[serde(borrow)]
    tokens: Option<Vec<Cow<'a, str>>>,
    token_logprobs: Option<Vec<Option<f64>>>,
    top_logprobs: Option<Vec<Option<BTreeMap<String, f64>>>>,
}

#[derive(Deserialize)]
struct ChatToken<'a> {
    #[serde(borrow, default)]
    token: Cow<'a, str>,
    logprob: f64,
    #[serde(borrow, default)]
    top_logprobs: Vec<Alternative<'a>>,
}

#[derive(Deserialize)]
struct Alternative<'a> {
    #[serde(borrow, default)]
    token: Cow<'a, str>,
    logprob: f64,
}

impl<'a> Logprobs<'a> {
    fn told(self) -> Vec<TokenTold<'a>> {
        let chat = self.content.unwrap_or_default().into_iter().map(|told| {
            let alternatives = told.top_logprobs.into_iter().map(|one| (one.token, one.logprob));
            TokenTold {
                token: told.token,
                logprob: Some(told.logprob),
                alternatives: alternatives.collect(),
            }
        });
        let mut tokens = self.tokens.unwrap_or_default().into_iter();
        let mut tops = self.top_logprobs.unwrap_or_default().into_iter();
        let completion = self.token_logprobs.unwrap_or_default().into_iter().map(|logprob| {
            let top = tops.next().flatten().unwrap_or_default();
            TokenTold {
                token: tokens.next().unwrap_or_default(),
                logprob,
                alternatives: top
                    .into_iter()
                    .map(|(name, logprob)| (name.into(), logprob))
                    .collect(),
            }
        });
        chat.chain(completion).collect()
    }
}
