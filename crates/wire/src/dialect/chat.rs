//! Chat request builder: the chat completions body that a dialect's request becomes.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::fields::Fields;

/// The fields of a chat completion that its prompt depends on.
const PROMPT: [&str; 5] =
    ["model", "messages", "tools", "chat_template_kwargs", "continue_final_message"];

/// Names of left-out fields that are told at most.
const LEFT_OUT_MAX: usize = 20;

/// A request in its translation.
#[derive(Clone, Debug)]
pub struct Chat {
    /// The chat completions body.
    pub body: Vec<u8>,
    /// Fields and offers that were left out because the answer does not depend on them.
    pub left_out: Vec<String>,
}

/// The members of a chat completions body, in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct ChatBody(Vec<(&'static str, Box<RawValue>)>);

impl ChatBody {
    /// Sets a member.
    pub(super) fn set(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let raw = to_raw_value(value).expect("what is set has string keys");
        self.0.push((name, raw));
    }

    /// Sets a member where there is a value.
    pub(super) fn set_some(&mut self, name: &'static str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.set(name, &value);
        }
    }

    /// Takes all members away but those that its prompt depends on.
    pub(super) fn keep_prompt(&mut self) {
        self.0.retain(|(name, _)| PROMPT.contains(name));
    }

    /// Takes members away.
    pub(super) fn remove(&mut self, names: &[&str]) {
        self.0.retain(|(name, _)| !names.contains(name));
    }

    /// Whether a member is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(set, _)| *set == name)
    }

    /// The body's text.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("members are JSON already")
    }
}

impl Serialize for ChatBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What was left out of a translation.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<String>);

impl LeftOut {
    /// Notes a name, once.
    pub(super) fn note(&mut self, name: impl Into<String>) {
        let name = name.into();
        if self.0.len() < LEFT_OUT_MAX && !self.0.contains(&name) {
            self.0.push(name);
        }
    }

    /// Notes what nobody has read of an object.
    pub(super) fn note_unread(&mut self, fields: &Fields<'_>) {
        for path in fields.unread() {
            self.note(path);
        }
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.0
    }
}

/// One chat message.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChatMessage {
    pub(super) role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    /// Null where an assistant only called tools.
    pub(super) content: Option<Content>,
    /// Engines read the thought back under either name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
}

impl ChatMessage {
    /// Takes the images out of the message; how many there were.
    pub(super) fn take_images(&mut self) -> usize {
        let Some(Content::Parts(parts)) = &mut self.content else { return 0 };
        let all = parts.len();
        parts.retain(|part| matches!(part, Part::Text { .. }));
        all - parts.len()
    }
}

/// A message's content.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message's content.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

/// An image by its address, which may hold its data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

impl Part {
    /// A text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image.
    pub(super) const fn image(url: String, detail: Option<String>) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url, detail } }
    }
}

/// A tool call of an assistant.
#[derive(Debug, Serialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    r#type: &'static str,
    function: Called,
}

#[derive(Debug, Serialize)]
struct Called {
    name: String,
    arguments: String,
}

impl ToolCall {
    pub(super) const fn new(id: String, name: String, arguments: String) -> Self {
        Self { id, r#type: "function", function: Called { name, arguments } }
    }
}

/// A function that the model may call.
#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Schema<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

/// A JSON schema: the client's own text, or one of ours.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Schema<'a> {
    Own(&'a RawValue),
    Made(serde_json::Value),
}

/// An entry of `tools`.
#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    r#type: &'static str,
    pub(super) function: Function<'a>,
}

impl<'a> Tool<'a> {
    pub(super) const fn new(function: Function<'a>) -> Self {
        Self { r#type: "function", function }
    }
}

/// A schema that the answer is to follow.
#[derive(Debug, Serialize)]
pub(super) struct JsonSchema<'a> {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

impl JsonSchema<'_> {
    /// The `response_format` of it.
    pub(super) fn format(&self) -> impl Serialize {
        #[derive(Serialize)]
        struct Format<'a, S> {
            r#type: &'static str,
            json_schema: &'a S,
        }
        Format { r#type: "json_schema", json_schema: self }
    }
}

/// The `tool_choice` that forces one function.
pub(super) fn forced(name: &str) -> serde_json::Value {
    serde_json::json!({"type": "function", "function": {"name": name}})
}
