//! Chunk writer: chunks of a second answer in the name of the first.

use serde_json::{Map, Value, json};
use std::fmt::Write as _;

use super::piece::Piece;
use crate::endpoint::Generation;
use crate::sse;

const NAMES: [&str; 5] = ["id", "object", "created", "model", "system_fingerprint"];

/// Token counts of an answer from several attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Of the prompt, once.
    pub prompt: u32,
    /// Of the answer as it was told.
    pub completion: u32,
}

impl Sums {
    fn value(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt.saturating_add(self.completion),
            "completion_tokens": self.completion,
        })
    }
}

/// A choice as it is told.
#[derive(Clone, Debug, Default)]
pub struct Choice<'a> {
    /// Text for the reader.
    pub text: &'a str,
    /// Reasoning.
    pub reasoning: &'a str,
    /// Tool calls: index, id, function and arguments.
    pub calls: Vec<(u32, Option<&'a str>, Option<&'a str>, &'a str)>,
    /// Log probabilities as JSON text.
    pub logprobs: Option<&'a str>,
    /// Why it ended.
    pub finish: Option<&'a str>,
    /// What stopped it, as JSON text.
    pub stop_reason: Option<&'a str>,
    /// Ids of its tokens.
    pub ids: Option<&'a [u32]>,
}

/// What all chunks of an answer share.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Its members as JSON text, with a comma behind each.
    text: String,
    generation: Option<Generation>,
    reasoning_name: &'static str,
}

impl Heading {
    /// Takes note of how a chunk of the first answer is headed.
    pub fn note(&mut self, piece: &Piece<'_>, generation: Generation) {
        if !piece.reasoning_name.is_empty() {
            self.reasoning_name = piece.reasoning_name;
        }
        if self.generation.is_some() || !piece.has_choice {
            return;
        }
        self.generation = Some(generation);
        for (name, value) in NAMES.iter().zip(piece.head) {
            if let Some(value) = value {
                let _written = write!(self.text, "\"{name}\":{},", value.get());
            }
        }
    }

    /// Writes a chunk.
    pub fn event(&self, choice: &Choice<'_>, sums: Option<Sums>, out: &mut Vec<u8>) {
        let mut members = Map::new();
        members.insert("index".into(), 0.into());
        match self.generation {
            Some(Generation::Completion) => {
                members.insert("text".into(), choice.text.into());
            }
            Some(Generation::Chat) | None => {
                members.insert("delta".into(), self.delta(choice));
            }
        }
        let parsed = |raw: &str| serde_json::from_str(raw).unwrap_or_default();
        members.insert("logprobs".into(), choice.logprobs.map(parsed).unwrap_or_default());
        members.insert("finish_reason".into(), choice.finish.into());
        if choice.finish.is_some() {
            members
                .insert("stop_reason".into(), choice.stop_reason.map(parsed).unwrap_or_default());
        }
        if let Some(ids) = choice.ids {
            members.insert("token_ids".into(), ids.into());
        }
        self.write(&json!([members]), sums, out);
    }

    /// Writes the chunk that tells token counts alone.
    pub fn counts(&self, sums: Sums, out: &mut Vec<u8>) {
        self.write(&json!([]), Some(sums), out);
    }

    fn write(&self, choices: &Value, sums: Option<Sums>, out: &mut Vec<u8>) {
        let usage = sums.map(|sums| format!(",\"usage\":{}", sums.value())).unwrap_or_default();
        let head = &self.text;
        out.extend_from_slice(
            format!("data: {{{head}\"choices\":{choices}{usage}}}\n\n").as_bytes(),
        );
    }

    fn delta(&self, choice: &Choice<'_>) -> Value {
        let mut delta = Map::new();
        if !choice.text.is_empty() {
            delta.insert("content".into(), choice.text.into());
        }
        if !choice.reasoning.is_empty() {
            let name = match self.reasoning_name {
                "" => "reasoning_content",
                name => name,
            };
            delta.insert(name.into(), choice.reasoning.into());
        }
        if !choice.calls.is_empty() {
            let calls = choice.calls.iter().map(|(index, id, name, arguments)| {
                let mut function = json!({ "arguments": arguments });
                let mut call = json!({ "index": index });
                if let Some(name) = name {
                    function["name"] = (*name).into();
                }
                if let Some(id) = id {
                    call["id"] = (*id).into();
                    call["type"] = "function".into();
                }
                call["function"] = function;
                call
            });
            delta.insert("tool_calls".into(), calls.collect());
        }
        Value::Object(delta)
    }
}

impl Choice<'_> {
    /// Whether it says nothing.
    pub fn is_idle(&self) -> bool {
        self.text.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && self.finish.is_none()
            && self.logprobs.is_none()
            && self.ids.is_none_or(<[u32]>::is_empty)
    }
}

/// The comment that says that a stream was resumed; clients ignore it.
const RESUMED: &str = "x-overdraft-resumed";

/// Writes the comment that says how often and how a stream was resumed.
pub fn resumed(how: &str) -> Vec<u8> {
    sse::comment(&format!("{RESUMED}: {how}"))
}
