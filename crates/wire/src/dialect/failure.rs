//! Failures: an error of a worker or of the gateway, before it takes a dialect's shape.
//!
//! Workers tell errors as `{"error":{"message"}}`, `{"object":"error","message"}`, `{"detail"}`,
//! `{"error":"text"}`, or in HTML. The message is taken out of whichever it is; the status gives the class.

use serde_json::Value;

use crate::error::ApiError;

/// Bytes of a worker's error that a client is told at most.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Words with which engines and gateways say that a prompt does not fit, in lower case.
const TOO_LONG: [&str; 5] =
    ["context length", "context_length", "context size", "context window", "prompt is too long"];

/// Words before the tokens of a context, in lower case: vLLM's, those of `SGLang` and ours.
const CONTEXT: [&str; 2] = ["maximum context length is ", "maximum context length of "];

/// Words behind the tokens of a prompt.
const PROMPT: [&str; 3] = [" in the messages", " tokens from the input messages", " input tokens"];

/// Words behind the tokens that an answer may have.
const ANSWER: [&str; 3] = [" in the completion", " tokens for the completion", " output tokens"];

/// Words before them.
const MAX_TOKENS: &str = "is too large: ";

/// What an engine writes before a count that it gave up, which says nothing of where the prompt ends.
const GIVEN_UP: &str = "at least ";

/// A prompt that fits a context, but not together with the answer that it may have; all in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow {
    pub(super) prompt: u64,
    pub(super) answer: u64,
    pub(super) context: u64,
}

/// An error with its status, in nobody's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// HTTP status; within a stream the one that it would have had.
    pub status: u16,
    /// For people.
    pub message: String,
    /// The field at fault.
    pub param: Option<String>,
    /// A word for programs, where the error had one.
    pub code: Option<String>,
}

impl Failure {
    /// An error of the gateway's own.
    pub fn of(error: &ApiError) -> Self {
        Self {
            status: error.status(),
            message: error.message.clone(),
            param: error.param.clone(),
            code: error.kind.code().map(str::to_owned),
        }
    }

    /// The body of an error answer, whoever gave it.
    pub fn read(status: u16, body: &[u8]) -> Self {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        let field = |name: &str| {
            let value = parsed.as_ref()?.get("error")?.get(name)?.as_str()?;
            Some(value.to_owned())
        };
        let message =
            message_of(body).unwrap_or_else(|| format!("the worker failed with status {status}"));
        Self { status, message, param: field("param"), code: field("code") }
    }

    /// A fault of the worker's within its answer.
    pub(super) const fn in_stream(message: String) -> Self {
        Self { status: 500, message, param: None, code: None }
    }

    /// An error that came in place of an answer, with no status beside it.
    pub(super) fn of_event(data: &[u8]) -> Self {
        let parsed: Option<Value> = serde_json::from_slice(data).ok();
        let kind = parsed.as_ref().and_then(|value| value.pointer("/error/type")?.as_str());
        let status = match kind {
            Some("overloaded_error") => 503,
            Some("rate_limit_error") => 429,
            _ => 500,
        };
        Self::read(status, data)
    }

    /// Whether the prompt did not fit the model's context.
    pub(super) fn is_context_exceeded(&self) -> bool {
        let message = self.message.to_lowercase();
        let is_of_request = matches!(self.status, 400 | 413 | 422);
        let is_named = self.code.as_deref() == Some("context_length_exceeded");
        is_of_request && (is_named || TOO_LONG.iter().any(|words| message.contains(words)))
    }

    /// The figures of a prompt that would fit with a shorter answer, where the error tells them all.
    pub(super) fn overflow(&self) -> Option<Overflow> {
        let message = self.message.to_lowercase();
        let before = |words: &&str| number_before(&message, words);
        let context = CONTEXT.iter().find_map(|words| number_behind(&message, words))?;
        let prompt = PROMPT.iter().find_map(before)?;
        let answer =
            number_behind(&message, MAX_TOKENS).or_else(|| ANSWER.iter().find_map(before))?;
        let is_of_both = prompt < context && context < prompt.saturating_add(answer);
        is_of_both.then_some(Overflow { prompt, answer, context })
    }
}

/// The number right behind `words`.
fn number_behind(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number right before `words`, unless somebody gave up counting there.
fn number_before(text: &str, words: &str) -> Option<u64> {
    let (rest, _) = text.split_once(words)?;
    let before = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if before.ends_with(GIVEN_UP) {
        return None;
    }
    rest[before.len()..].parse().ok()
}

/// Whether an error's status and body say that the prompt did not fit the model's context.
pub fn names_long_prompt(status: u16, body: &[u8]) -> bool {
    matches!(status, 400 | 413 | 422) && Failure::read(status, body).is_context_exceeded()
}

/// The message of an error in whatever shape; none where it has no words.
pub(crate) fn message_of(body: &[u8]) -> Option<String> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let text = String::from_utf8_lossy(body);
        return clipped(text.trim());
    };
    let error = value.get("error");
    let words = error
        .and_then(|error| error.as_str().or_else(|| error.get("message")?.as_str()))
        .or_else(|| value.get("message")?.as_str())
        .or_else(|| value.get("detail")?.as_str());
    match words {
        Some(words) => clipped(words),
        None => clipped(&value.get("detail").or(error)?.to_string()),
    }
}

fn clipped(words: &str) -> Option<String> {
    let mut end = words.len().min(MESSAGE_BYTES_MAX);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    (!words.is_empty()).then(|| words[..end].to_owned())
}
