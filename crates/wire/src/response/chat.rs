//! Answers of `/v1/chat/completions`, whole and in chunks.

use serde::Serialize;

use super::{ChatLogprobs, FinishReason, Head, PromptLogprobs, StopReason, Usage};

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatCompletion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    /// One per `n`.
    pub choices: Vec<ChatChoice>,
    /// What it took.
    pub usage: Usage,
    /// The prompt's log probabilities, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
    /// The prompt's tokens, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// One of the answers to a chat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatChoice {
    /// Its number among the choices.
    pub index: u32,
    /// What the assistant says.
    pub message: AssistantMessage,
    /// When asked for; null otherwise.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: Option<FinishReason>,
    /// Which of the client's stops ended it; null otherwise.
    pub stop_reason: Option<StopReason>,
    /// Its tokens, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// What the assistant says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AssistantMessage {
    role: &'static str,
    /// The text.
    pub content: Option<String>,
    /// Never filled: clients expect the field.
    refusal: Option<String>,
}

impl AssistantMessage {
    /// A message of plain text.
    pub fn new(content: impl Into<String>) -> Self {
        Self { role: "assistant", content: Some(content.into()), refusal: None }
    }
}

impl<'a> ChatCompletion<'a> {
    /// The whole answer.
    pub const fn new(head: Head<'a>, choices: Vec<ChatChoice>, usage: Usage) -> Self {
        Self {
            id: head.id,
            object: "chat.completion",
            created: head.created,
            model: head.model,
            choices,
            usage,
            prompt_logprobs: None,
            prompt_token_ids: None,
        }
    }
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatChunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    /// Those that have something new; empty in the chunk that tells the usage.
    pub choices: Vec<ChatChunkChoice>,
    /// What it took so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The prompt's tokens, in the first chunk, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
}

/// What is new about one choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChatChunkChoice {
    /// Its number among the choices.
    pub index: u32,
    /// What is new.
    pub delta: Delta,
    /// Of the new tokens, when asked for; null otherwise.
    pub logprobs: Option<ChatLogprobs>,
    /// Why it ended, in its last chunk.
    pub finish_reason: Option<FinishReason>,
    /// Which of the client's stops ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The new tokens, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// The new part of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delta {
    /// In a choice's first chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// More text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl Delta {
    /// What opens a choice: the role, and no text yet.
    pub fn opening() -> Self {
        Self { role: Some("assistant"), content: Some(String::new()) }
    }

    /// More text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { role: None, content: Some(text.into()) }
    }
}

impl<'a> ChatChunk<'a> {
    /// A piece.
    pub const fn new(head: Head<'a>, choices: Vec<ChatChunkChoice>) -> Self {
        Self {
            id: head.id,
            object: "chat.completion.chunk",
            created: head.created,
            model: head.model,
            choices,
            usage: None,
            prompt_token_ids: None,
        }
    }

    /// The chunk that tells the usage.
    pub const fn usage(head: Head<'a>, usage: Usage) -> Self {
        let mut chunk = Self::new(head, Vec::new());
        chunk.usage = Some(usage);
        chunk
    }
}
