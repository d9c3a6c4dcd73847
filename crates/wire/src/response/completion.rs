//! Answers of `/v1/completions`; a chunk has the same form as the whole.

use serde::Serialize;

use super::{CompletionLogprobs, FinishReason, Head, PromptLogprobs, StopReason, Usage};

/// A whole answer or a piece of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionResponse<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    /// `n` per prompt, a prompt's choices together; in a stream those that have something new.
    pub choices: Vec<CompletionChoice>,
    /// What it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// One completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionChoice {
    /// Its number among the choices.
    pub index: u32,
    /// The text, or what is new of it.
    pub text: String,
    /// When asked for; null otherwise.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended.
    pub finish_reason: Option<FinishReason>,
    /// Which of the client's stops ended it; null otherwise.
    pub stop_reason: Option<StopReason>,
    /// The prompt's log probabilities, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
    /// The prompt's tokens, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Its tokens, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

impl<'a> CompletionResponse<'a> {
    /// An answer or a piece of one.
    pub const fn new(head: Head<'a>, choices: Vec<CompletionChoice>, usage: Option<Usage>) -> Self {
        Self {
            id: head.id,
            object: "text_completion",
            created: head.created,
            model: head.model,
            choices,
            usage,
        }
    }
}
