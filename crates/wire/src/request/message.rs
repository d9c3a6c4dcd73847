//! One message of a chat: who says what.
//!
//! Roles are free, as templates know roles of their own, but only of letters that no template can
//! mistake for its control tokens. **Invariant:** what is not understood is kept in `extra` for the
//! template; only text is accepted as content.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields::{Fields, mismatch, object_at};
use crate::error::{ApiError, clip};

/// Length of a role at most.
pub const ROLE_CHARS_MAX: usize = 64;

/// Parts of the content that are text, by their `type`, and the field that holds it.
const TEXT_PARTS: [(&str, &str); 4] =
    [("text", "text"), ("input_text", "text"), ("output_text", "text"), ("refusal", "refusal")];

/// One message of a chat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or one that the model's template knows.
    pub role: String,
    /// What is said; absent when the assistant only calls tools.
    pub content: Option<Content>,
    /// Who says it, among several of the same role.
    pub name: Option<String>,
    /// Calls the assistant made, as they came.
    pub tool_calls: Vec<Value>,
    /// Which call a `tool` message answers.
    pub tool_call_id: Option<String>,
    /// Fields not known here; a template may know them.
    pub extra: Map<String, Value>,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A plain string.
    Text(String),
    /// The texts of an array of parts.
    Parts(Vec<String>),
}

impl Message {
    /// A message of plain text.
    pub fn new(role: impl Into<String>, text: impl Into<String>) -> Self {
        let content = Some(Content::Text(text.into()));
        Self { role: role.into(), content, ..Self::default() }
    }

    /// Reads the array `messages`.
    pub(super) fn take_all(fields: &mut Fields) -> Result<Vec<Self>, ApiError> {
        let path = fields.path("messages");
        let items = fields.array("messages")?.ok_or_else(|| {
            ApiError::invalid(&path, format!("`{path}` is missing; expected an array of messages"))
        })?;
        if items.is_empty() {
            let message = format!("`{path}` is empty; expected at least one message");
            return Err(ApiError::invalid(path, message));
        }
        let message = |(index, item)| Self::parse(format!("{path}[{index}]"), item);
        items.into_iter().enumerate().map(message).collect()
    }

    fn parse(path: String, value: Value) -> Result<Self, ApiError> {
        let mut fields = object_at(path, value)?;
        let role = role(&mut fields)?;
        let tool_calls = fields.array("tool_calls")?.unwrap_or_default();
        let content = content(&mut fields)?;
        if content.is_none() && tool_calls.is_empty() && role != "assistant" {
            let path = fields.path("content");
            let message = format!("`{path}` is missing; expected a string or an array of parts");
            return Err(ApiError::invalid(path, message));
        }
        Ok(Self {
            role,
            content,
            name: fields.text("name")?,
            tool_calls,
            tool_call_id: fields.text("tool_call_id")?,
            extra: fields.rest(),
        })
    }
}

impl Content {
    /// The whole text; parts are put on lines of their own, as vLLM does.
    pub fn joined(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => Cow::Owned(parts.join("\n")),
        }
    }
}

fn role(fields: &mut Fields) -> Result<String, ApiError> {
    let path = fields.path("role");
    let expected = "expected `system`, `user`, `assistant` or `tool`";
    let Some(role) = fields.text("role")? else {
        return Err(ApiError::invalid(&path, format!("`{path}` is missing; {expected}")));
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if role.is_empty() || role.len() > ROLE_CHARS_MAX || !role.bytes().all(plain) {
        let message = format!("`{}` is not a role; {expected}", clip(&role));
        return Err(ApiError::invalid(path, message));
    }
    Ok(role)
}

fn content(fields: &mut Fields) -> Result<Option<Content>, ApiError> {
    let path = fields.path("content");
    match fields.take("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(Content::Text(text))),
        Some(Value::Array(items)) => {
            let part = |(index, item)| part(format!("{path}[{index}]"), item);
            let parts: Result<_, _> = items.into_iter().enumerate().map(part).collect();
            Ok(Some(Content::Parts(parts?)))
        }
        Some(other) => Err(mismatch(&path, &other, "a string or an array of parts")),
    }
}

fn part(path: String, value: Value) -> Result<String, ApiError> {
    // Some clients send the bare string.
    if let Value::String(text) = value {
        return Ok(text);
    }
    let mut fields = object_at(path, value)?;
    let kind = fields.text("type")?.unwrap_or_else(|| "text".to_owned());
    let Some((_, field)) = TEXT_PARTS.iter().find(|(name, _)| *name == kind) else {
        let message = format!("content of type `{}` is not served; expected `text`", clip(&kind));
        return Err(ApiError::invalid(fields.path("type"), message));
    };
    let path = fields.path(field);
    fields.text(field)?.ok_or_else(|| {
        let message = format!("`{path}` is missing; expected a string");
        ApiError::invalid(path, message)
    })
}
