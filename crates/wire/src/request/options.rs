//! What chat and completion requests have in common: sampling, limits, form of the answer.
//!
//! Defaults and ranges are vLLM's where they differ from OpenAI's, since this is the contract the
//! worker keeps. **Invariant:** every number here is finite and within the range its comment names.

use overdraft_units::{Priority, TokenId};
use serde_json::Value;

use super::fields::{Fields, as_f32, as_integer, integer_at, mismatch, object_at, out_of_range};
use crate::error::ApiError;

/// Choices per prompt at most.
pub const CHOICES_MAX: u32 = 128;
/// Likeliest tokens told per position at most: vLLM's `--max-logprobs`.
pub const LOGPROBS_MAX: u32 = 20;
/// Stop strings, and stop tokens, at most.
pub const STOPS_MAX: usize = 64;
/// Length of a stop string at most.
pub const STOP_BYTES_MAX: usize = 1_024;
/// Tokens with a bias at most, which is OpenAI's limit.
pub const LOGIT_BIAS_MAX: usize = 1_024;
/// Length of a cache salt at most.
pub const CACHE_SALT_CHARS_MAX: usize = 1_024;
/// Length of a client's request id at most.
const REQUEST_ID_CHARS_MAX: usize = 256;
/// The largest bias: forces or forbids a token.
const LOGIT_BIAS_LIMIT: f32 = 100.0;

/// Everything but what is to be completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which model; absent means the server's own.
    pub model: Option<String>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// When the completion ends.
    pub ending: Ending,
    /// What the answer contains.
    pub output: Output,
    /// In how many pieces it comes.
    pub delivery: Delivery,
    /// When it is computed and with whom it shares.
    pub scheduling: Scheduling,
    /// The client's own name for its user; changes nothing.
    pub user: Option<String>,
    /// OpenAI's `service_tier`; a worker ignores it.
    pub service_tier: Option<String>,
}

/// How tokens are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Zero or more; zero is greedy. Default 1.
    pub temperature: f32,
    /// In `(0, 1]`. Default 1.
    pub top_p: f32,
    /// At least 1; `None` is all tokens (on the wire: absent, 0 or -1).
    pub top_k: Option<u32>,
    /// In `[0, 1]`. Default 0.
    pub min_p: f32,
    /// In `[-2, 2]`. Default 0.
    pub presence_penalty: f32,
    /// In `[-2, 2]`. Default 0.
    pub frequency_penalty: f32,
    /// Above zero. Default 1.
    pub repetition_penalty: f32,
    /// In `[-100, 100]` each; whether the tokens exist is for the model to say.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Fixes the draws. Negative seeds wrap around.
    pub seed: Option<u64>,
}

/// When the completion ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Completion tokens at most; `None` is all the context leaves.
    pub max_tokens: Option<u32>,
    /// No end before this many completion tokens.
    pub min_tokens: u32,
    /// Strings that end it, none empty.
    pub stop: Vec<String>,
    /// Tokens that end it.
    pub stop_token_ids: Vec<TokenId>,
    /// Whether the stop string stays in the answer.
    pub include_stop: bool,
    /// Whether to go on past the model's end token.
    pub ignore_eos: bool,
}

/// What the answer contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Choices per prompt, `1..=CHOICES_MAX`.
    pub n: u32,
    /// With `Some(k)`: log probabilities of the prompt's tokens and of the `k` likeliest.
    pub prompt_logprobs: Option<u32>,
    /// Whether and how token ids are told.
    pub token_ids: TokenIdsOutput,
    /// Whether control tokens are left out of the text.
    pub skip_special_tokens: bool,
}

/// Whether and how token ids are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenIdsOutput {
    /// `return_token_ids`: `prompt_token_ids` and `choices[].token_ids` are filled.
    pub returned: bool,
    /// `return_tokens_as_token_ids`: tokens in log probabilities read `token_id:42`.
    pub as_text: bool,
}

/// In how many pieces the answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One body.
    Whole,
    /// Server-sent events.
    Stream(StreamUsage),
}

/// When a stream tells its token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamUsage {
    /// Not at all.
    #[default]
    Never,
    /// In a last chunk without choices.
    Last,
    /// In every chunk and a last one.
    Every,
}

/// When a request is computed and with whom it shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Prefixes are shared only under the same salt; `1..=CACHE_SALT_CHARS_MAX` characters.
    pub cache_salt: Option<String>,
    /// Lower goes first.
    pub priority: Priority,
    /// The client's name for the request.
    pub request_id: Option<String>,
    /// Who may guess ahead.
    pub speculation: Speculation,
}

/// Who may guess ahead for a request: the field `speculation`, Overdraft's own. Names of drafters are
/// vLLM's methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    /// `auto`: whoever the worker has and finds worth it.
    #[default]
    Auto,
    /// `off`: nobody.
    Off,
    /// `ngram`: lookups only.
    Ngram,
    /// `draft_model`: the draft model only.
    DraftModel,
}

impl StreamUsage {
    /// From `include_usage` and `continuous_usage_stats`; the latter means nothing alone.
    pub const fn new(included: Option<bool>, continuous: Option<bool>) -> Self {
        match (included, continuous) {
            (Some(true), Some(true)) => Self::Every,
            (Some(true), _) => Self::Last,
            _ => Self::Never,
        }
    }
}

impl Options {
    pub(super) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let model = fields.text("model")?;
        let delivery = delivery(fields)?;
        Ok(Self {
            model,
            sampling: Sampling::take(fields)?,
            ending: Ending::take(fields)?,
            output: Output::take(fields, delivery)?,
            delivery,
            scheduling: Scheduling::take(fields)?,
            user: fields.text("user")?,
            service_tier: fields.text("service_tier")?,
        })
    }
}

impl Sampling {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let penalty = |value: f32| (-2.0..=2.0).contains(&value);
        let range = "a number from -2 to 2";
        Ok(Self {
            temperature: fields
                .number("temperature", |value| value >= 0.0, "a number, zero or more")?
                .unwrap_or(1.0),
            top_p: fields
                .number("top_p", |value| value > 0.0 && value <= 1.0, "a number above 0, up to 1")?
                .unwrap_or(1.0),
            top_k: top_k(fields)?,
            min_p: fields
                .number("min_p", |value| (0.0..=1.0).contains(&value), "a number from 0 to 1")?
                .unwrap_or(0.0),
            presence_penalty: fields.number("presence_penalty", penalty, range)?.unwrap_or(0.0),
            frequency_penalty: fields.number("frequency_penalty", penalty, range)?.unwrap_or(0.0),
            repetition_penalty: fields
                .number("repetition_penalty", |value| value > 0.0, "a number above 0")?
                .unwrap_or(1.0),
            logit_bias: logit_bias(fields)?,
            seed: seed(fields)?,
        })
    }
}

fn top_k(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let k = fields.integer("top_k", -1..=i64::from(i32::MAX))?;
    Ok(k.and_then(|k| u32::try_from(k).ok()).filter(|&k| k > 0))
}

fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("seed") else { return Ok(None) };
    let path = fields.path("seed");
    let expected = "an integer of 64 bits";
    let integer = as_integer(&value).ok_or_else(|| mismatch(&path, &value, expected))?;
    let wrapped = i64::try_from(integer).map(i64::cast_unsigned);
    wrapped
        .or_else(|_| u64::try_from(integer))
        .map(Some)
        .map_err(|_| out_of_range(&path, &value, expected))
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let Some(value) = fields.take("logit_bias") else { return Ok(Vec::new()) };
    let path = fields.path("logit_bias");
    let entries = object_at(path.clone(), value)?.rest();
    if entries.len() > LOGIT_BIAS_MAX {
        let message = format!("`{path}` has {} tokens; at most {LOGIT_BIAS_MAX}", entries.len());
        return Err(ApiError::invalid(path, message));
    }
    entries.iter().map(|(key, bias)| bias_entry(&path, key, bias)).collect()
}

fn bias_entry(path: &str, key: &str, bias: &Value) -> Result<(TokenId, f32), ApiError> {
    let token = key.parse().map(TokenId).map_err(|_| {
        let key = crate::error::clip(key);
        let message =
            format!("`{key}` in `{path}` is not a token id; expected digits, as in \"42\"");
        ApiError::invalid(path, message)
    })?;
    let expected = "a number from -100 to 100";
    let number = as_f32(bias).ok_or_else(|| mismatch(path, bias, expected))?;
    if number.abs() > LOGIT_BIAS_LIMIT {
        return Err(out_of_range(path, bias, expected));
    }
    Ok((token, number))
}

impl Ending {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        // Both are read, so that either is checked; the newer name wins.
        let completion = fields.count("max_completion_tokens", u32::MAX)?;
        let total = fields.count("max_tokens", u32::MAX)?;
        let ending = Self {
            max_tokens: completion.or(total),
            min_tokens: fields.count("min_tokens", u32::MAX)?.unwrap_or(0),
            stop: stop(fields)?,
            stop_token_ids: stop_token_ids(fields)?,
            include_stop: fields.flag("include_stop_str_in_output")?.unwrap_or(false),
            ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
        };
        if let Some(max) = ending.max_tokens.filter(|&max| ending.min_tokens > max) {
            let message = format!(
                "`min_tokens` is {}, more than `max_tokens`, which is {max}; expected at most that",
                ending.min_tokens
            );
            return Err(ApiError::invalid(fields.path("min_tokens"), message));
        }
        Ok(ending)
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let path = fields.path("stop");
    let strings = match fields.take("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => {
            let mut strings = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                match item {
                    Value::String(text) => strings.push(text),
                    other => return Err(mismatch(&format!("{path}[{index}]"), &other, "a string")),
                }
            }
            strings
        }
        Some(other) => return Err(mismatch(&path, &other, "a string or an array of strings")),
    };
    if strings.len() > STOPS_MAX {
        let message =
            format!("`{path}` has {} strings; expected at most {STOPS_MAX}", strings.len());
        return Err(ApiError::invalid(path, message));
    }
    if strings.iter().any(|text| text.is_empty() || text.len() > STOP_BYTES_MAX) {
        let message = format!("`{path}` has a string that is empty or over {STOP_BYTES_MAX} bytes");
        return Err(ApiError::invalid(path, message));
    }
    Ok(strings)
}

fn stop_token_ids(fields: &mut Fields) -> Result<Vec<TokenId>, ApiError> {
    let path = fields.path("stop_token_ids");
    let items = fields.array("stop_token_ids")?.unwrap_or_default();
    if items.len() > STOPS_MAX {
        let message = format!("`{path}` has {} tokens; expected at most {STOPS_MAX}", items.len());
        return Err(ApiError::invalid(path, message));
    }
    token_ids(&path, &items)
}

/// An array of token ids at `path`.
pub(super) fn token_ids(path: &str, items: &[Value]) -> Result<Vec<TokenId>, ApiError> {
    let token = |(index, item): (usize, &Value)| {
        // The fast path spares the item's path, which only an error needs.
        if let Some(id) = item.as_u64().and_then(|id| u32::try_from(id).ok()) {
            return Ok(TokenId(id));
        }
        let id = integer_at(&format!("{path}[{index}]"), item, 0..=i64::from(u32::MAX))?;
        Ok(TokenId(u32::try_from(id).expect("the range ends within u32")))
    };
    items.iter().enumerate().map(token).collect()
}

impl Output {
    fn take(fields: &mut Fields, delivery: Delivery) -> Result<Self, ApiError> {
        let n = choices(fields, "n")?.unwrap_or(1);
        if let Some(best_of) = choices(fields, "best_of")?.filter(|&best_of| best_of != n) {
            let message = format!(
                "`best_of` is {best_of} and `n` is {n}; expected the same number, since ranking more \
                 choices than are returned is not served"
            );
            return Err(ApiError::invalid(fields.path("best_of"), message));
        }
        let prompt_logprobs = fields.count("prompt_logprobs", LOGPROBS_MAX)?;
        if prompt_logprobs.is_some() && delivery != Delivery::Whole {
            let message = "`prompt_logprobs` cannot be streamed; expected `stream` false";
            return Err(ApiError::invalid(fields.path("prompt_logprobs"), message));
        }
        Ok(Self {
            n,
            prompt_logprobs,
            token_ids: TokenIdsOutput {
                returned: fields.flag("return_token_ids")?.unwrap_or(false),
                as_text: fields.flag("return_tokens_as_token_ids")?.unwrap_or(false),
            },
            skip_special_tokens: fields.flag("skip_special_tokens")?.unwrap_or(true),
        })
    }
}

fn choices(fields: &mut Fields, name: &str) -> Result<Option<u32>, ApiError> {
    let found = fields.integer(name, 1..=i64::from(CHOICES_MAX))?;
    Ok(found.map(|n| u32::try_from(n).expect("the range ends within u32")))
}

fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.flag("stream")?.unwrap_or(false);
    let Some(mut options) = fields.object("stream_options")? else {
        return Ok(if stream { Delivery::Stream(StreamUsage::Never) } else { Delivery::Whole });
    };
    let included = options.flag("include_usage")?;
    let continuous = options.flag("continuous_usage_stats")?;
    if !stream {
        let message = "`stream_options` is set but `stream` is not; expected both or neither";
        return Err(ApiError::invalid(fields.path("stream_options"), message));
    }
    Ok(Delivery::Stream(StreamUsage::new(included, continuous)))
}

impl Scheduling {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
        let priority = fields.integer("priority", range)?.unwrap_or(0);
        Ok(Self {
            cache_salt: bounded(fields, "cache_salt", CACHE_SALT_CHARS_MAX)?,
            priority: Priority(i32::try_from(priority).expect("the range is that of i32")),
            request_id: bounded(fields, "request_id", REQUEST_ID_CHARS_MAX)?,
            speculation: Speculation::take(fields)?,
        })
    }
}

impl Speculation {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let path = fields.path("speculation");
        let Some(name) = fields.text("speculation")? else { return Ok(Self::Auto) };
        match name.as_str() {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "ngram" => Ok(Self::Ngram),
            "draft_model" => Ok(Self::DraftModel),
            _ => {
                let name = crate::error::clip(&name);
                let message = format!(
                    "`{name}` is not a valid `{path}`; expected `auto`, `off`, `ngram` or `draft_model`"
                );
                Err(ApiError::invalid(path, message))
            }
        }
    }
}

/// A string of one to `max` characters.
fn bounded(fields: &mut Fields, name: &str, max: usize) -> Result<Option<String>, ApiError> {
    let found = fields.text(name)?;
    if let Some(length) = found.as_ref().map(|text| text.chars().count())
        && !(1..=max).contains(&length)
    {
        let path = fields.path(name);
        let message = format!("`{path}` has {length} characters; expected 1 to {max}");
        return Err(ApiError::invalid(path, message));
    }
    Ok(found)
}
