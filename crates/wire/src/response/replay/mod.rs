//! Response replay: turns a cached answer into the form that a request asks for.
//!
//! A whole answer becomes a stream and a stream a whole answer, with the id, the time and the words of
//! the first. **Invariant:** what cannot be carried over completely is not carried over at all: a
//! field this file does not know, and that says something, makes the conversion fail.

mod assemble;
mod spread;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use self::assemble::whole_of;
pub use self::spread::events_of;
use super::Usage;
use crate::answer::AnswerChunk;
use crate::sse::{Event, Splitter};

/// How the choices of an answer ended, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Each with `stop` or `length`.
    Complete,
    /// One calls a tool.
    Calls,
    /// Another word, or none.
    Otherwise,
}

/// What an answer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How it ended.
    pub finished: Finished,
    /// Its token counts, if it tells them.
    pub usage: Option<Usage>,
}

/// What a whole answer to `choices` choices says of itself; `None` where it is none.
pub fn summary_of_whole(answer: &[u8], choices: u32) -> Option<Summary> {
    let answer: Map<String, Value> = serde_json::from_slice(answer).ok()?;
    let told = answer.get("choices")?.as_array()?;
    if answer.get("error").is_some_and(|error| !error.is_null()) {
        return None;
    }
    let mut ends = Ends::default();
    for choice in told {
        ends.hear(choice, choice.get("message"));
    }
    Some(Summary { finished: ends.finished(choices), usage: usage(&answer) })
}

/// What a stream of events to `choices` choices says of itself; `None` where it is not one with a clean
/// end.
pub fn summary_of_events(events: &[u8], choices: u32) -> Option<Summary> {
    let (mut ends, mut told) = (Ends::default(), None);
    for chunk in chunks(events)? {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return None;
        }
        for choice in chunk.get("choices").and_then(Value::as_array).into_iter().flatten() {
            ends.hear(choice, choice.get("delta"));
        }
        told = usage(&chunk).or(told);
    }
    Some(Summary { finished: ends.finished(choices), usage: told })
}

/// The stream without the event that tells its usage alone.
pub fn without_usage(events: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(events.len());
    each_event(events, |event| {
        if !is_usage(event) {
            kept.extend_from_slice(event.raw());
        }
    });
    kept
}

/// Whether an event tells the usage and nothing else.
pub fn is_usage(event: &Event) -> bool {
    let Some(data) = event.data() else { return false };
    AnswerChunk::parse(&data).is_ok_and(|chunk| chunk.choices.is_some() && chunk.is_usage_only())
}

/// How choices ended so far.
#[derive(Default)]
struct Ends {
    complete: u32,
    calls: bool,
    otherwise: bool,
}

impl Ends {
    fn hear(&mut self, choice: &Value, said: Option<&Value>) {
        match choice.get("finish_reason").and_then(Value::as_str) {
            Some("stop" | "length") => self.complete += 1,
            Some("tool_calls" | "function_call") => self.calls = true,
            Some(_) => self.otherwise = true,
            None => {}
        }
        let says =
            |name| said.and_then(|said| said.get(name)).is_some_and(|value| !is_empty(value));
        self.calls |= says("tool_calls") || says("function_call");
    }

    fn finished(&self, choices: u32) -> Finished {
        if self.calls {
            Finished::Calls
        } else if self.otherwise || self.complete < choices.max(1) {
            Finished::Otherwise
        } else {
            Finished::Complete
        }
    }
}

/// Whether a value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn usage(answer: &Map<String, Value>) -> Option<Usage> {
    let usage = answer.get("usage").filter(|usage| !usage.is_null())?;
    serde_json::from_value(usage.clone()).ok()
}

/// The chunks of a stream; `None` unless all are JSON objects and `[DONE]` comes last.
fn chunks(events: &[u8]) -> Option<Vec<Map<String, Value>>> {
    let mut chunks = Vec::new();
    let (mut is_done, mut is_odd) = (false, false);
    each_event(events, |event| {
        if event.is_done() {
            is_done = true;
        } else if let Some(data) = event.data() {
            match serde_json::from_slice(&data) {
                Ok(Value::Object(chunk)) => chunks.push(chunk),
                _ => is_odd = true,
            }
        }
    });
    (is_done && !is_odd).then_some(chunks)
}

fn each_event(events: &[u8], mut then: impl FnMut(&Event)) {
    let mut splitter = Splitter::new(events.len());
    splitter.push(events);
    while let Ok(Some(event)) = splitter.next_event() {
        then(&event);
    }
}
