//! What must a gateway know of a message it passes on? A handful of fields, checked for type only.
//!
//! Ranges are the worker's business: it knows its model's limits and engines differ in what they
//! allow. **Invariant:** a field that is absent or null reads as its default; one of the wrong type is
//! an error that names it, before anything is forwarded.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::scan::Object;
use crate::error::{ApiError, ErrorKind, clip};
use crate::request::StreamUsage;
use crate::response::Usage;

/// The fields of a chat or completion request that decide where it goes and how it is relayed.
#[derive(Clone, Debug)]
pub struct RequestPeek<'a> {
    /// The request itself, to be patched.
    pub object: Object<'a>,
    /// Which model; absent means the server's own.
    pub model: Option<Cow<'a, str>>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// When a stream tells its token counts.
    pub usage: StreamUsage,
    /// Choices asked for.
    pub n: u32,
    /// Completion tokens at most, if the client set a limit.
    pub max_tokens: Option<u32>,
    /// The client's own name for its user.
    pub user: Option<Cow<'a, str>>,
    /// Whose cached prefixes may be shared.
    pub cache_salt: Option<Cow<'a, str>>,
    /// Lower goes first.
    pub priority: Option<i32>,
    /// OpenAI's `service_tier`.
    pub service_tier: Option<Cow<'a, str>>,
    /// JSON text of the chat messages.
    pub messages: Option<&'a str>,
    /// JSON text of the completion's prompt.
    pub prompt: Option<&'a str>,
}

impl<'a> RequestPeek<'a> {
    /// Reads the fields out of a request's body.
    ///
    /// # Errors
    /// 400 where the body is no JSON object or a field read here has the wrong type.
    pub fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let object = Object::parse(body)?;
        let limit = count(&object, "max_completion_tokens")?;
        let max_tokens = limit.or(count(&object, "max_tokens")?);
        Ok(Self {
            model: text(&object, "model")?,
            stream: typed::<bool>(&object, "stream", "true or false")?.unwrap_or(false),
            usage: stream_usage(&object)?,
            n: count(&object, "n")?.unwrap_or(1),
            max_tokens,
            user: text(&object, "user")?,
            cache_salt: text(&object, "cache_salt")?,
            priority: typed(&object, "priority", "an integer")?,
            service_tier: text(&object, "service_tier")?,
            messages: object.raw("messages"),
            prompt: object.raw("prompt"),
            object,
        })
    }
}

fn stream_usage(object: &Object<'_>) -> Result<StreamUsage, ApiError> {
    #[derive(Deserialize)]
    struct StreamOptions {
        include_usage: Option<bool>,
        continuous_usage_stats: Option<bool>,
    }
    let expected = "an object with `include_usage`: true or false";
    let options = typed::<StreamOptions>(object, "stream_options", expected)?;
    Ok(options.map_or(StreamUsage::Never, |options| {
        StreamUsage::new(options.include_usage, options.continuous_usage_stats)
    }))
}

fn count(object: &Object<'_>, name: &str) -> Result<Option<u32>, ApiError> {
    typed(object, name, "an integer, zero or more")
}

/// A string, borrowed unless it has escapes.
fn text<'a>(object: &Object<'a>, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let Some(raw) = object.raw(name) else { return Ok(None) };
    let value: Option<Text<'a>> =
        serde_json::from_str(raw).map_err(|_| wrong_type(name, raw, "a string"))?;
    Ok(value.map(|Text(text)| text))
}

fn typed<T: DeserializeOwned>(
    object: &Object<'_>,
    name: &str,
    expected: &str,
) -> Result<Option<T>, ApiError> {
    let Some(raw) = object.raw(name) else { return Ok(None) };
    serde_json::from_str(raw).map_err(|_| wrong_type(name, raw, expected))
}

fn wrong_type(name: &str, raw: &str, expected: &str) -> ApiError {
    ApiError::invalid(name, format!("`{}` is not a `{name}`; expected {expected}", clip(raw)))
}

/// The fields of a worker's answer, whole or chunk, that a relay must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkPeek {
    /// Choices in it.
    pub choices: usize,
    /// Of those, how many carry a finish reason.
    pub finished: usize,
    /// Choices that carry text for the reader, tool calls included.
    pub with_content: usize,
    /// Token counts.
    pub usage: Option<Usage>,
    /// The message of an error that was sent in place of an answer.
    pub error: Option<String>,
}

impl ChunkPeek {
    /// Reads the fields out of an event's data or a whole body.
    ///
    /// # Errors
    /// 502 where it is not an OpenAI object: the worker is at fault, not the client.
    pub fn parse(data: &[u8]) -> Result<Self, ApiError> {
        let chunk: Chunk<'_> = serde_json::from_slice(data).map_err(|error| {
            ApiError::new(ErrorKind::Upstream, format!("the worker sent no valid answer: {error}"))
        })?;
        let choices = chunk.choices.unwrap_or_default();
        Ok(Self {
            choices: choices.len(),
            finished: choices.iter().filter(|choice| choice.finish_reason.is_some()).count(),
            with_content: choices.iter().filter(|choice| choice.has_content()).count(),
            usage: chunk.usage,
            error: chunk.error.map(Failure::into_message),
        })
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    finish_reason: Option<IgnoredAny>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    message: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    tool_calls: Option<IgnoredAny>,
}

impl Choice<'_> {
    fn has_content(&self) -> bool {
        self.text.as_ref().is_some_and(|text| !text.is_empty())
            || self.delta.as_ref().or(self.message.as_ref()).is_some_and(Delta::has_content)
    }
}

impl Delta<'_> {
    fn has_content(&self) -> bool {
        let filled = |text: &Option<Cow<'_, str>>| text.as_ref().is_some_and(|t| !t.is_empty());
        filled(&self.content) || filled(&self.reasoning_content) || self.tool_calls.is_some()
    }
}

/// An error object: OpenAI's, or the bare string that some servers send.
#[derive(Deserialize)]
#[serde(untagged)]
enum Failure {
    Object { message: String },
    Text(String),
    Other(IgnoredAny),
}

impl Failure {
    fn into_message(self) -> String {
        match self {
            Self::Object { message } | Self::Text(message) => message,
            Self::Other(_) => "the worker sent an error without a message".to_owned(),
        }
    }
}
