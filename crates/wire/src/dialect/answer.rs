//! Chat answer reader: what a chunk of a stream, or a whole chat completion, says to a dialect.
//!
//! Engines spell the same thing in many ways; this reader takes every spelling that was seen in the wild:
//! thoughts under two names, null for absent, counts as floats, errors as objects and as texts.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failure;

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model was done, or met a stop sequence, which is named where the worker names it.
    Stop(Option<String>),
    /// It called tools.
    Calls,
    /// It reached the limit of tokens.
    Length,
    /// A filter stopped it.
    Filtered,
}

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChatUsage {
    /// Tokens of the prompt, cached ones included.
    pub prompt: u64,
    /// Of those, found in the worker's cache; none where the worker does not say.
    pub cached: Option<u64>,
    /// Tokens of the answer, thoughts included.
    pub completion: u64,
    /// Tokens of thoughts.
    pub reasoning: u64,
}

/// What one chunk says, or a whole answer.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) thought: String,
    pub(super) text: String,
    /// Why the model does not answer, in its own words.
    pub(super) refusal: String,
    /// The log probabilities of the text's tokens.
    pub(super) logprobs: Vec<Box<RawValue>>,
    pub(super) calls: Vec<CallFragment>,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<ChatUsage>,
    /// The model's name as the worker has it.
    pub(super) model: Option<String>,
}

/// A piece of a tool call.
#[derive(Debug, Default)]
pub(super) struct CallFragment {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

impl Said {
    /// Reads an event's data or a whole answer.
    pub(super) fn parse(data: &[u8]) -> Result<Self, Failure> {
        let nonsense =
            |_| Failure::in_stream("the worker's answer is no chat completion".to_owned());
        let raw: Raw = serde_json::from_slice(data).map_err(nonsense)?;
        let is_error = raw.object.as_ref().and_then(Value::as_str) == Some("error");
        if is_error || raw.error.as_ref().is_some_and(|error| !error.is_null()) {
            return Err(Failure::of_event(data));
        }
        let usage = raw.usage.as_ref().and_then(read_usage);
        let mut said = Self { usage, model: text(raw.model), ..Self::default() };
        // One answer is asked for; others would be another's.
        let choices = raw.choices.unwrap_or_default();
        if let Some(choice) = choices.into_iter().find(|choice| count(&choice.index) == 0) {
            said.read_choice(choice);
        }
        Ok(said)
    }

    fn read_choice(&mut self, choice: RawChoice) {
        self.finish = finish(&choice);
        self.logprobs = choice.logprobs.and_then(|logprobs| logprobs.content).unwrap_or_default();
        let Some(delta) = choice.delta.or(choice.message) else { return };
        // Some engines tell the thought twice, under both names.
        let thought = text(delta.reasoning_content).filter(|thought| !thought.is_empty());
        self.thought = thought.or_else(|| text(delta.reasoning)).unwrap_or_default();
        self.text = text(delta.content).unwrap_or_default();
        self.refusal = text(delta.refusal).unwrap_or_default();
        let calls = delta.tool_calls.unwrap_or_default().into_iter().map(CallFragment::from);
        self.calls = calls.collect();
        if let Some(function) = delta.function_call {
            let call = RawCall { function: Some(function), index: Some(Value::from(0)), id: None };
            self.calls.push(call.into());
        }
    }
}

#[derive(Deserialize)]
struct Raw {
    object: Option<Value>,
    model: Option<Value>,
    choices: Option<Vec<RawChoice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct RawChoice {
    #[serde(default)]
    index: Value,
    finish_reason: Option<Value>,
    stop_reason: Option<Value>,
    matched_stop: Option<Value>,
    delta: Option<RawDelta>,
    message: Option<RawDelta>,
    logprobs: Option<RawLogprobs>,
}

#[derive(Deserialize)]
struct RawLogprobs {
    content: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct RawDelta {
    content: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    refusal: Option<Value>,
    tool_calls: Option<Vec<RawCall>>,
    function_call: Option<RawFunction>,
}

#[derive(Deserialize)]
struct RawCall {
    index: Option<Value>,
    id: Option<Value>,
    function: Option<RawFunction>,
}

#[derive(Deserialize)]
struct RawFunction {
    name: Option<Value>,
    arguments: Option<Box<RawValue>>,
}

impl From<RawCall> for CallFragment {
    fn from(call: RawCall) -> Self {
        let (name, arguments) = call
            .function
            .map_or((None, None), |function| (text(function.name), function.arguments));
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        Self {
            index: call.index.as_ref().and_then(number),
            id: filled(text(call.id)),
            name: filled(name),
            arguments: arguments.map(|raw| arguments_of(&raw)).unwrap_or_default(),
        }
    }
}

/// Arguments are a text; a few engines give the object itself, which is taken as it stands.
fn arguments_of(raw: &RawValue) -> String {
    match raw.get() {
        "null" => String::new(),
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        object => object.to_owned(),
    }
}

/// A text, or the texts of a list of parts.
fn text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            Some(texts.collect())
        }
        _ => None,
    }
}

fn finish(choice: &RawChoice) -> Option<Finish> {
    let reason = choice.finish_reason.as_ref().and_then(Value::as_str)?;
    Some(match reason {
        "" => return None,
        "length" | "max_tokens" => Finish::Length,
        "content_filter" => Finish::Filtered,
        "tool_calls" | "function_call" => Finish::Calls,
        _ => {
            // A number is the id of an end token, which no client has asked for.
            let named = choice.stop_reason.as_ref().and_then(Value::as_str);
            let named = named.or_else(|| choice.matched_stop.as_ref().and_then(Value::as_str));
            Finish::Stop(named.map(str::to_owned))
        }
    })
}

/// Token counts in whatever spelling; none where there are no counts.
fn read_usage(usage: &Value) -> Option<ChatUsage> {
    if !usage.is_object() {
        return None;
    }
    let told = |path: &str| usage.pointer(path).and_then(number);
    Some(ChatUsage {
        prompt: told("/prompt_tokens").unwrap_or(0),
        cached: told("/prompt_tokens_details/cached_tokens"),
        completion: told("/completion_tokens").unwrap_or(0),
        reasoning: told("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
    })
}

fn count(value: &Value) -> u64 {
    number(value).unwrap_or(0)
}

fn number(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and counts are far below its bounds"
    )]
    let whole = |number: f64| number.max(0.0) as u64;
    value.as_u64().or_else(|| value.as_f64().map(whole))
}
