//! Response echo: what the object repeats of its request.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dialect::fields::is_text;

/// Whether somebody waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The client does.
    Foreground,
    /// It comes back and looks.
    Background,
}

/// Whether an answer can be asked for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is kept.
    Stored,
    /// It is not.
    Forgotten,
}

impl Serialize for Course {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self == Self::Background)
    }
}

impl Serialize for Keeping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*self == Self::Stored)
    }
}

/// A response's request, as its object tells it. Absent values are told as `OpenAI` tells its defaults.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Echo {
    pub(super) background: Course,
    pub(super) instructions: Option<String>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) max_tool_calls: Option<u32>,
    pub(super) metadata: Box<RawValue>,
    pub(super) parallel_tool_calls: bool,
    pub(super) previous_response_id: Option<String>,
    pub(super) prompt_cache_key: Option<String>,
    pub(super) reasoning: Reasoning,
    pub(super) safety_identifier: Option<String>,
    pub(super) service_tier: Option<String>,
    pub(super) store: Keeping,
    pub(super) temperature: Option<Box<RawValue>>,
    pub(super) text: Box<RawValue>,
    pub(super) tool_choice: Box<RawValue>,
    pub(super) tools: Vec<Box<RawValue>>,
    pub(super) top_logprobs: Option<u32>,
    pub(super) top_p: Option<Box<RawValue>>,
    pub(super) truncation: String,
    pub(super) user: Option<String>,
}

/// How much was to be thought.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Reasoning {
    pub(super) effort: Option<String>,
    pub(super) summary: Option<String>,
}

/// A default as JSON text.
pub(super) fn default_of(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value is JSON")
}

/// A message that a client has sent, as an item; a content that is a text becomes a part.
///
/// What the client wrote goes in byte for byte: it was scanned and never read, so it may hold numbers or escapes that no
/// value can.
pub(super) fn message(id: Option<&str>, role: &str, content: &RawValue) -> Box<RawValue> {
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a RawValue,
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Content<'a> {
        Text([Text<'a>; 1]),
        Parts(&'a RawValue),
    }
    #[derive(Serialize)]
    struct Message<'a> {
        id: Option<&'a str>,
        r#type: &'static str,
        status: &'static str,
        role: &'a str,
        content: Content<'a>,
    }
    let content = if is_text(content) {
        Content::Text([Text { r#type: "input_text", text: content }])
    } else {
        Content::Parts(content)
    };
    let message = Message { id, r#type: "message", status: "completed", role, content };
    serde_json::value::to_raw_value(&message).expect("it has string keys")
}
