//! Member judgement: what of a request's members decides how its stream may be resumed.
//!
//! Three lists: members that mean the same where a prompt is given by ids, members that do not matter
//! to what follows a seam, and members that are judged by their value. Whatever is in none of them is
//! unknown, and no answer to it goes on by ids.

use serde_json::Value;

use crate::endpoint::Generation;
use crate::json::Object;

/// Members that a completion by ids takes over as they are.
pub(super) const CARRIED: [&str; 20] = [
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "frequency_penalty",
    "logit_bias",
    "stop_token_ids",
    "ignore_eos",
    "bad_words",
    "allowed_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "user",
    "cache_salt",
    "priority",
    "service_tier",
    "session_id",
];

/// Members that a completion by ids does without: the ids have them in them, or they change nothing.
const DROPPED: [&str; 26] = [
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "stream_interval",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "include_stop_str_in_output",
    "seed",
    "n",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "chat_template_kwargs",
    "documents",
    "metadata",
    "store",
    "safety_identifier",
    "prompt_cache_key",
    "request_id",
    "return_token_ids",
    "reasoning_effort",
    "parallel_tool_calls",
];

/// Members that begin a grammar, or bind an answer in another way that knows only its own part.
const GRAMMARS: [&str; 11] = [
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "grammar",
    "json_schema",
    "ebnf",
    "regex",
    "thinking_token_budget",
    "functions",
];

/// What stands in a message that has more than words.
const MEDIA: [&[u8]; 4] =
    [b"\"image_url\"", b"\"input_audio\"", b"\"audio_url\"", b"\"video_url\""];

/// Something that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Tools.
    Tools,
    /// A grammar, or a forced choice of tools.
    Grammar,
    /// Log probabilities.
    Logprobs,
    /// A presence penalty.
    Presence,
    /// A frequency penalty.
    Frequency,
    /// Pictures or sounds.
    Media,
    /// A member that nobody has judged.
    Unknown,
    /// That its last message is continued.
    Continuation,
    /// Temperature 0.
    Greedy,
    /// The ids of tokens.
    Ids,
    /// That a stop string stays in the answer.
    StopKept,
}

/// A request as far as resuming goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// What it asks for.
    pub asked: Vec<Asked>,
    /// Its seed.
    pub seed: Option<i64>,
    /// Its stop strings.
    pub stops: Vec<String>,
    /// Tokens at most; `Some(None)` where it says null.
    pub limit: Option<Option<u32>>,
    /// Tokens at least.
    pub least: u32,
}

/// Judges a request; nothing where its stream is never resumed.
pub fn judge(object: &Object<'_>, generation: Generation) -> Option<Judged> {
    let value = |name: &str| parsed(object, name).filter(|value| !value.is_null());
    let number = |name: &str| value(name).and_then(|value| value.as_f64()).unwrap_or(0.0);
    let is_true = |name: &str| value(name) == Some(Value::Bool(true));
    let strange = is_true("echo") || is_true("use_beam_search") || value("suffix").is_some();
    if strange || number("best_of") > 1.0 {
        return None;
    }
    let mut asked: Vec<Asked> = object.members().iter().filter_map(|member| of(member)).collect();
    asked.sort_unstable_by_key(|one| *one as u8);
    asked.dedup();
    if value("temperature").is_some_and(|value| value.as_f64() == Some(0.0)) {
        asked.push(Asked::Greedy);
    }
    let prompt = object.raw("messages").unwrap_or_default().as_bytes();
    if MEDIA.iter().any(|mark| memchr::memmem::find(prompt, mark).is_some()) {
        asked.push(Asked::Media);
    }
    let limit = |name: &str| {
        parsed(object, name).map(|value| value.as_u64().and_then(|most| u32::try_from(most).ok()))
    };
    let total = (generation == Generation::Chat).then(|| limit("max_completion_tokens")).flatten();
    Some(Judged {
        asked,
        seed: value("seed").and_then(|value| value.as_i64()),
        stops: stops(value("stop")),
        limit: total.filter(Option::is_some).or(limit("max_tokens")),
        least: value("min_tokens").and_then(|least| least.as_u64()).map_or(0, saturated),
    })
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(super) fn parsed(object: &Object<'_>, name: &str) -> Option<Value> {
    object.raw(name).and_then(|raw| serde_json::from_str(raw).ok())
}

fn stops(stop: Option<Value>) -> Vec<String> {
    let strings = match stop {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => {
            many.into_iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    };
    strings.into_iter().filter(|one| !one.is_empty()).collect()
}

/// What a member asks for, if for anything that matters.
fn of(member: &crate::json::Member<'_>) -> Option<Asked> {
    let key = member.key();
    let value: Value = serde_json::from_str(member.value()).unwrap_or_default();
    let is_off = match &value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    match &*key {
        "tools" if !is_off => Some(Asked::Tools),
        "tool_choice" if is_off || matches!(value.as_str(), Some("auto" | "none")) => None,
        "tool_choice" => Some(Asked::Grammar),
        "response_format" if is_off || value["type"] == "text" => None,
        "response_format" => Some(Asked::Grammar),
        // For a completion, zero asks for the token's own.
        "logprobs" if matches!(value, Value::Null | Value::Bool(false)) => None,
        "logprobs" | "top_logprobs" if value.is_number() || !is_off => Some(Asked::Logprobs),
        "presence_penalty" if !is_off => Some(Asked::Presence),
        "frequency_penalty" if !is_off => Some(Asked::Frequency),
        "continue_final_message" if !is_off => Some(Asked::Continuation),
        "return_token_ids" if !is_off => Some(Asked::Ids),
        "include_stop_str_in_output" if !is_off => Some(Asked::StopKept),
        name if GRAMMARS.contains(&name) && !is_off => Some(Asked::Grammar),
        name if CARRIED.contains(&name) || DROPPED.contains(&name) || is_off => None,
        _ => Some(Asked::Unknown),
    }
}
