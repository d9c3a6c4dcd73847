//! Response object: the answer's items, and the object around them.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::echo::Echo;
use super::events::Identity;
use crate::dialect::answer::ChatUsage;

/// How a response or an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

/// The object.
#[derive(Debug, Serialize)]
pub(super) struct Object<'a> {
    id: &'a str,
    #[serde(rename = "object")]
    kind: &'static str,
    created_at: u64,
    status: Status,
    error: Option<Value>,
    incomplete_details: Option<Value>,
    model: &'a str,
    output: &'a [Box<RawValue>],
    usage: Option<Value>,
    #[serde(flatten)]
    echo: &'a Echo,
}

impl<'a> Object<'a> {
    pub(super) fn new(identity: &'a Identity, model: Option<&'a str>, echo: &'a Echo) -> Self {
        Self {
            id: &identity.id,
            kind: "response",
            created_at: identity.created_at,
            status: Status::InProgress,
            error: None,
            incomplete_details: None,
            model: identity.model.as_deref().or(model).unwrap_or_default(),
            output: &[],
            usage: None,
            echo,
        }
    }

    pub(super) fn with(self, status: Status, output: &'a [Box<RawValue>]) -> Self {
        Self { status, output, ..self }
    }

    pub(super) fn incomplete(self, reason: Option<&'static str>) -> Self {
        Self { incomplete_details: reason.map(|reason| json!({ "reason": reason })), ..self }
    }

    pub(super) fn failed(self, code: &str, message: &str) -> Self {
        Self { error: Some(json!({"code": code, "message": message})), ..self }
    }

    pub(super) fn used(self, told: Option<ChatUsage>) -> Self {
        Self { usage: Some(usage(told.unwrap_or_default())), ..self }
    }
}

/// Token counts, all of them: Codex fails a turn that lacks one. No worker tells what it wrote to its cache.
pub(super) fn usage(told: ChatUsage) -> Value {
    json!({
        "input_tokens": told.prompt,
        "input_tokens_details": {
            "cached_tokens": told.cached.unwrap_or(0),
            "cache_write_tokens": 0,
        },
        "output_tokens": told.completion,
        "output_tokens_details": {"reasoning_tokens": told.reasoning},
        "total_tokens": told.prompt + told.completion,
    })
}

/// An output item.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Message {
        id: &'a str,
        status: Status,
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Reasoning {
        id: &'a str,
        status: Status,
        summary: [(); 0],
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<String>,
    },
    FunctionCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
    CustomToolCall {
        id: &'a str,
        status: Status,
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
    },
}

impl Item<'_> {
    pub(super) fn to_raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("an item has string keys")
    }
}

/// A part of an item's content.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    OutputText { text: &'a str, annotations: [(); 0], logprobs: &'a [Box<RawValue>] },
    Refusal { refusal: &'a str },
    ReasoningText { text: &'a str },
}

impl<'a> Part<'a> {
    pub(super) const fn text(text: &'a str, logprobs: &'a [Box<RawValue>]) -> Self {
        Self::OutputText { text, annotations: [], logprobs }
    }
}
