//! Stream piece: all that one chunk of a single choice says.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::answer::UsageTold;

/// An event's data is no JSON: the worker died within it, or cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the answer is not JSON")]
pub struct NotJson;

/// Whether a chunk names who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It does not.
    #[default]
    Untold,
    /// It does, as the first of a chat.
    Told,
}

/// One chunk of a stream with one choice.
#[derive(Clone, Debug, Default)]
pub struct Piece<'a> {
    /// `id`, `object`, `created`, `model` and `system_fingerprint` as they were written, where they were.
    pub head: [Option<&'a RawValue>; 5],
    /// Whether it has a choice.
    pub has_choice: bool,
    /// Whether it names the role.
    pub role: Role,
    /// Text for the reader.
    pub text: Cow<'a, str>,
    /// Reasoning.
    pub reasoning: Cow<'a, str>,
    /// How reasoning is called here: `reasoning` or `reasoning_content`; empty where there is none.
    pub reasoning_name: &'static str,
    /// Tool calls.
    pub calls: Vec<PieceCall>,
    /// Whether it holds something else that is told: a refusal, a sound, log probabilities.
    pub is_strange: bool,
    /// Log probabilities, as they were written.
    pub logprobs: Option<&'a RawValue>,
    /// Why the choice ended, if it did.
    pub finish: Option<Cow<'a, str>>,
    /// What stopped it, as it was written.
    pub stop_reason: Option<&'a RawValue>,
    /// Ids of its tokens.
    pub ids: Option<Vec<u32>>,
    /// Ids of the prompt.
    pub prompt_ids: Option<Vec<u32>>,
    /// Token counts.
    pub usage: Option<UsageTold>,
}

/// What a chunk says of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PieceCall {
    /// Its place among the calls.
    #[serde(default)]
    pub index: u32,
    /// Its id.
    pub id: Option<String>,
    #[serde(default)]
    function: Function,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

impl PieceCall {
    /// The function, where it is named.
    pub fn name(&self) -> Option<&str> {
        self.function.name.as_deref()
    }

    /// More of its arguments.
    pub fn arguments(&self) -> &str {
        self.function.arguments.as_deref().unwrap_or_default()
    }
}

impl<'a> Piece<'a> {
    /// Reads an event's data.
    ///
    /// # Errors
    /// [`NotJson`] for what is not UTF-8, and for what begins as an object and is none; what is no object is a piece
    /// that says nothing.
    pub fn parse(data: &'a [u8]) -> Result<Self, NotJson> {
        // The parser looks at the members alone that it is asked for, and all of them are told.
        if simdutf8::basic::from_utf8(data).is_err() {
            return Err(NotJson);
        }
        match serde_json::from_slice::<Raw<'a>>(data) {
            Ok(raw) => Ok(raw.into()),
            Err(error) if error.is_data() && serde_json::from_slice::<IgnoredAny>(data).is_ok() => {
                Ok(Self { has_choice: true, is_strange: true, ..Self::default() })
            }
            // Other servers' words between chunks are for the client to judge.
            Err(_) if !data.trim_ascii_start().starts_with(b"{") => Ok(Self::default()),
            Err(_) => Err(NotJson),
        }
    }

    /// Tokens that it holds at the least: its ids, else one where it says anything.
    pub fn tokens_least(&self) -> u32 {
        let says = !self.text.is_empty() || !self.reasoning.is_empty() || !self.calls.is_empty();
        let count = |ids: &Vec<u32>| u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.ids.as_ref().map_or(u32::from(says), count)
    }

    /// Whether it is of the answer's tokens: neither a role nor counts alone.
    pub fn is_token(&self) -> bool {
        let says = !self.text.is_empty()
            || !self.reasoning.is_empty()
            || !self.calls.is_empty()
            || self.ids.as_ref().is_some_and(|ids| !ids.is_empty());
        self.has_choice && (says || self.role == Role::Untold)
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    created: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    system_fingerprint: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<RawChoice<'a>>>,
    usage: Option<RawUsage>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct RawChoice<'a> {
    #[serde(borrow)]
    delta: Option<RawDelta<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Default, Deserialize)]
struct RawDelta<'a> {
    role: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'a>>,
    #[serde(borrow)]
    reasoning: Option<Text<'a>>,
    tool_calls: Option<Vec<PieceCall>>,
    refusal: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RawUsage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
}

impl<'a> From<Raw<'a>> for Piece<'a> {
    fn from(raw: Raw<'a>) -> Self {
        let head = [raw.id, raw.object, raw.created, raw.model, raw.system_fingerprint];
        let usage = raw.usage.map(|usage| UsageTold {
            prompt: usage.prompt_tokens.unwrap_or(0),
            cached: None,
            completion: usage.completion_tokens.unwrap_or(0),
        });
        let mut piece = Self { head, usage, prompt_ids: raw.prompt_token_ids, ..Self::default() };
        let Some(choice) = raw.choices.unwrap_or_default().into_iter().next() else { return piece };
        let delta = choice.delta.unwrap_or_default();
        let text = |told: Option<Text<'a>>| told.map(|Text(text)| text).unwrap_or_default();
        piece.has_choice = true;
        piece.role = if delta.role.is_some() { Role::Told } else { Role::Untold };
        piece.text = delta.content.or(choice.text).map(|Text(text)| text).unwrap_or_default();
        piece.reasoning_name = match (&delta.reasoning, &delta.reasoning_content) {
            (Some(_), _) => "reasoning",
            (None, Some(_)) => "reasoning_content",
            (None, None) => "",
        };
        piece.reasoning = text(delta.reasoning.or(delta.reasoning_content));
        piece.calls = delta.tool_calls.unwrap_or_default();
        piece.is_strange =
            delta.refusal.is_some() || delta.function_call.is_some() || delta.audio.is_some();
        piece.logprobs = choice.logprobs;
        piece.finish = choice.finish_reason.map(|Text(word)| word).filter(|word| !word.is_empty());
        piece.stop_reason = choice.stop_reason;
        piece.ids = choice.token_ids;
        piece.prompt_ids = piece.prompt_ids.or(choice.prompt_token_ids);
        piece
    }
}
