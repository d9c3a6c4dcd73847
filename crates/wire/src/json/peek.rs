//! JSON peek: reads the few fields that a gateway needs, checked for type only.
//!
//! Ranges are the worker's business: it knows its model's limits and engines differ in what they
//! allow. **Invariant:** a field that is absent or null reads as its default; one of the wrong type is
//! an error that names it, before anything is forwarded.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::scan::Object;
use crate::error::{ApiError, clip};
use crate::request::{StreamUsage, as_integer};

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
    /// Choices asked for, for each prompt.
    pub n: u32,
    /// Prompts: of a completion those of its list, else one.
    pub prompts: u32,
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
            prompts: object.raw("prompt").map_or(1, prompts),
            max_tokens,
            user: text(&object, "user")?,
            cache_salt: text(&object, "cache_salt")?,
            priority: number(&object, "priority")?.and_then(whole::<i32>),
            service_tier: text(&object, "service_tier")?,
            messages: object.raw("messages"),
            prompt: object.raw("prompt"),
            object,
        })
    }
}

impl RequestPeek<'_> {
    /// Choices that the answer has in all.
    pub const fn choices(&self) -> u32 {
        let n = if self.n == 0 { 1 } else { self.n };
        n.saturating_mul(self.prompts)
    }
}

/// How many prompts there are: a list of texts or of lists of tokens has several, a text or a list of tokens is one.
fn prompts(raw: &str) -> u32 {
    let Some(list) = raw.strip_prefix('[') else { return 1 };
    if !list.trim_ascii_start().starts_with(['"', '[']) {
        return 1;
    }
    let list: Vec<IgnoredAny> = serde_json::from_str(raw).unwrap_or_default();
    u32::try_from(list.len()).unwrap_or(u32::MAX).max(1)
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

/// A number of things. What no number of things can be, as -1 that some servers take for no limit, is the worker's
/// to judge.
fn count(object: &Object<'_>, name: &str) -> Result<Option<u32>, ApiError> {
    Ok(number(object, name)?.and_then(whole::<u32>))
}

/// A number in any spelling: clients of languages without integers write 256.0 or 1e3.
fn number(object: &Object<'_>, name: &str) -> Result<Option<serde_json::Number>, ApiError> {
    typed(object, name, "a number")
}

/// The number as an integer, where it is one of that type.
fn whole<T: TryFrom<i128>>(number: serde_json::Number) -> Option<T> {
    as_integer(&Value::Number(number)).and_then(|integer| T::try_from(integer).ok())
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
