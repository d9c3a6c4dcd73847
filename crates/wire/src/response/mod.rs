//! Answers as clients of OpenAI's and vLLM's servers expect them.
//!
//! Field names and order are theirs; a field that vLLM adds appears only when it was asked for.
//! **Invariant:** every value serialises to valid JSON: log probabilities are finite numbers.

mod chat;
mod completion;
mod logprobs;
mod models;
pub mod replay;
#[cfg(test)]
mod tests;

use overdraft_units::Tokens;
use serde::{Deserialize, Serialize};

pub use self::chat::{
    AssistantMessage, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, Delta,
};
pub use self::completion::{CompletionChoice, CompletionResponse};
pub use self::logprobs::{
    ChatLogprobs, ChatTokenLogprob, ChatTopLogprob, CompletionLogprobs, LOGPROB_MIN, Logprob,
    PromptLogprob, PromptLogprobs, PromptPosition, TopLogprobs,
};
pub use self::models::{DetokenizeResponse, ModelCard, ModelList, TokenizeResponse};

/// What all parts of an answer share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The answer's id, as in `chatcmpl-…`.
    pub id: &'a str,
    /// When it was begun, in seconds since 1970.
    pub created: u64,
    /// The model's name as the client knows it.
    pub model: &'a str,
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model's end token, or a stop string or token.
    Stop,
    /// The limit of tokens.
    Length,
    /// The model calls a tool.
    ToolCalls,
    /// Text was withheld.
    ContentFilter,
}

/// Which of the client's stops ended a choice (vLLM).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// A token of `stop_token_ids`.
    Token(u32),
    /// A string of `stop`.
    Text(String),
}

/// Tokens an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the prompt, all choices' prompts counted once.
    #[serde(default)]
    pub prompt_tokens: u32,
    /// Of all choices.
    #[serde(default)]
    pub completion_tokens: u32,
    /// The sum of both.
    #[serde(default)]
    pub total_tokens: u32,
    /// More about the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokensDetails>,
    /// Of the completions, drafted tokens that were accepted; not told where nobody guesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative_tokens_accepted: Option<u32>,
}

/// More about the prompt's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokensDetails {
    /// Found in the prefix cache.
    #[serde(default)]
    pub cached_tokens: u32,
}

impl Usage {
    /// Of a prompt, of which `cached` tokens were not computed (if that is to be told), and a
    /// completion.
    pub fn new(prompt: Tokens, cached: Option<Tokens>, completion: Tokens) -> Self {
        let (prompt, completion) = (prompt.get(), completion.get());
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt.saturating_add(completion),
            prompt_tokens_details: cached
                .map(|cached| PromptTokensDetails { cached_tokens: cached.get() }),
            speculative_tokens_accepted: None,
        }
    }

    /// The same, of which so many drafted tokens were accepted, where anybody guesses.
    #[must_use]
    pub fn accepting(self, accepted: Option<Tokens>) -> Self {
        Self { speculative_tokens_accepted: accepted.map(Tokens::get), ..self }
    }
}

/// The bytes of an answer.
///
/// # Panics
/// Never for the types of this module: they have string keys and finite numbers.
pub fn to_json(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).expect("answers have string keys and finite numbers")
}
