//! Dialect events: what an event says that a worker gave in a dialect of its own.
//!
//! | says               | Messages                                       | Responses                                            |
//! |--------------------|------------------------------------------------|------------------------------------------------------|
//! | nothing yet        | `message_start`, `content_block_start`, `ping` | `.created`, `.queued`, `.in_progress`, `.added`      |
//! | the end            | `message_stop`                                 | `response.completed`, `response.incomplete`          |
//! | that it failed     | `error`                                        | `error`, `response.failed`                           |
//! | what is waited for | any other                                      | any other                                            |
//!
//! Token counts come in parts: Messages tells the prompt at the beginning and the answer at the end, each again as a
//! total wherever it is told again.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::chunk::UsageTold;
use crate::dialect::{Dialect, message_of};

/// What an event amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sense {
    /// Nothing a reader waits for.
    Idle,
    /// Something that a reader waits for.
    Progress,
    /// The answer is whole.
    Ended,
    /// The answer is over and tells itself that it failed.
    EndedFailed(String),
    /// The stream is no answer.
    Failed(String),
}

/// Token counts of a dialect, as far as they have been told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DialectUsage {
    /// Tokens of the prompt; in Messages without those of the cache.
    input: Option<u32>,
    output: Option<u32>,
    /// Tokens of the prompt that were found in the cache.
    cached: Option<u32>,
    /// Those that come on top of `input`.
    beside: Option<u32>,
}

/// An event, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialectEvent {
    pub(super) sense: Sense,
    pub(super) usage: Option<DialectUsage>,
    /// Its place in the stream, where events are numbered.
    pub(super) number: Option<u64>,
}

impl DialectEvent {
    /// Reads an event's data. What is no event of the dialect says nothing.
    pub(super) fn read(dialect: Dialect, data: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            sequence_number: Option<Value>,
        }
        let Ok(Typed { r#type: kind, sequence_number }) = serde_json::from_slice(data) else {
            return Self { sense: Sense::Idle, usage: None, number: None };
        };
        let number = sequence_number.as_ref().and_then(Value::as_u64);
        let sense = match dialect {
            Dialect::Messages => of_message(&kind, data),
            Dialect::Responses => of_response(&kind, data),
        };
        let place = match (dialect, &*kind) {
            (Dialect::Messages, "message_start") => "/message/usage",
            (Dialect::Messages, "message_delta") => "/usage",
            (Dialect::Responses, _) if matches!(sense, Sense::Ended | Sense::EndedFailed(_)) => {
                "/response/usage"
            }
            _ => return Self { sense, usage: None, number },
        };
        let event: Value = serde_json::from_slice(data).unwrap_or_default();
        let usage = event.pointer(place).and_then(|usage| DialectUsage::of(dialect, usage));
        // What a message begins with tells nothing of its answer yet, whatever number stands there.
        let is_begun = kind == "message_start";
        let usage = usage.map(|usage| if is_begun { usage.of_prompt() } else { usage });
        Self { sense, usage, number }
    }
}

fn of_message(kind: &str, data: &[u8]) -> Sense {
    match kind {
        "message_start" | "content_block_start" | "ping" => Sense::Idle,
        "message_stop" => Sense::Ended,
        "error" => Sense::Failed(why(data)),
        _ => Sense::Progress,
    }
}

fn of_response(kind: &str, data: &[u8]) -> Sense {
    match kind {
        "response.completed" | "response.incomplete" => Sense::Ended,
        "response.failed" => Sense::EndedFailed(why(data)),
        "error" => Sense::Failed(why(data)),
        _ if [".created", ".queued", ".in_progress", ".added"]
            .iter()
            .any(|end| kind.ends_with(end)) =>
        {
            Sense::Idle
        }
        _ => Sense::Progress,
    }
}

/// The words of an error, wherever they stand.
fn why(data: &[u8]) -> String {
    let event: Value = serde_json::from_slice(data).unwrap_or_default();
    let inside = event.pointer("/response/error/message").and_then(Value::as_str);
    let told = inside.map(str::to_owned).or_else(|| message_of(data));
    told.unwrap_or_else(|| "it did not say why".to_owned())
}

impl DialectUsage {
    /// Reads a `usage`; none where it tells nothing.
    pub(super) fn of(dialect: Dialect, usage: &Value) -> Option<Self> {
        let told = |path: &str| usage.pointer(path).and_then(number);
        let (input, output) = (told("/input_tokens"), told("/output_tokens"));
        let (cached, beside) = match dialect {
            Dialect::Messages => {
                let found = told("/cache_read_input_tokens");
                let written = told("/cache_creation_input_tokens");
                let both = found.unwrap_or(0).saturating_add(written.unwrap_or(0));
                (found, found.or(written).map(|_| both))
            }
            Dialect::Responses => (told("/input_tokens_details/cached_tokens"), None),
        };
        let counts = Self { input, output, cached, beside };
        (counts != Self::default()).then_some(counts)
    }

    /// The same without what it tells of the answer.
    const fn of_prompt(self) -> Self {
        Self { output: None, ..self }
    }

    /// The same with what is told later, which counts.
    pub(super) fn or(self, later: Self) -> Self {
        Self {
            input: later.input.or(self.input),
            output: later.output.or(self.output),
            cached: later.cached.or(self.cached),
            beside: later.beside.or(self.beside),
        }
    }

    /// As all answers tell them; nothing before the answer was counted.
    pub(super) fn told(self) -> Option<UsageTold> {
        let completion = self.output?;
        let prompt = self.input.unwrap_or(0).saturating_add(self.beside.unwrap_or(0));
        Some(UsageTold { prompt, cached: self.cached, completion })
    }
}

/// A count in any spelling of numbers.
fn number(value: &Value) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and counts are far below its bounds"
    )]
    let whole = |number: f64| number.max(0.0) as u32;
    let saturated = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    value.as_u64().map(saturated).or_else(|| value.as_f64().map(whole))
}
