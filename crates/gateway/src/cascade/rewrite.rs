//! Request rewriting: the JSON bodies sent to draft and target, made from the client's request.
//!
//! The draft gets the client's request under the draft's model name, streamed with log
//! probabilities and token ids. The target scores and continues by token ids alone, so that no text
//! is tokenised twice.

use std::collections::BTreeMap;

use bytes::Bytes;
use overdraft_core::cascade::{LogProb, TargetRow};
use overdraft_units::TokenId;
use overdraft_wire::Generation;
use overdraft_wire::json::{Object, Patch};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Top log probabilities requested from the draft at each position.
const RIVALS: u32 = 5;

/// Members of a request that do not prevent the target from continuing from token ids.
const CONTINUED: [&str; 21] = [
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "n",
    "user",
    "metadata",
    "store",
    "cache_salt",
    "service_tier",
    "request_id",
    "safety_identifier",
    "prompt_cache_key",
    "chat_template_kwargs",
];

/// Members that are copied into the target's continuation request.
const CARRIED: [&str; 6] = ["temperature", "top_p", "top_k", "min_p", "user", "cache_salt"];

/// Whether the target can go on from tokens as it would have by itself.
pub(super) fn is_continuable(object: &Object<'_>) -> bool {
    object.members().iter().all(|member| {
        let key = member.key();
        CONTINUED.contains(&&*key) || object.raw(&key).is_some_and(|raw| raw == "null")
    })
}

/// The client's request for the draft. With `ids` rivals are told by their ids and not by their texts.
pub(super) fn draft(object: &Object<'_>, model: &str, generation: Generation, ids: bool) -> Bytes {
    let patch = Patch::new()
        .set("model", &model)
        .set("stream", &true)
        .set_raw("stream_options", r#"{"include_usage":true}"#)
        .set("return_token_ids", &true);
    let patch = if ids { patch.set("return_tokens_as_token_ids", &true) } else { patch };
    let patch = match generation {
        Generation::Chat => patch.set("logprobs", &true).set("top_logprobs", &RIVALS),
        Generation::Completion => patch.set("logprobs", &RIVALS),
    };
    patch.apply(object).into()
}

/// The client's request for a comparison: whole, and no dearer than it must be.
pub(super) fn compared(object: &Object<'_>, model: &str) -> Bytes {
    let patch = Patch::new().set("model", &model).set("stream", &false);
    patch.remove("stream_options").apply(object).into()
}

/// The client's request to the target as far as its prompt goes: one token of an answer.
pub(super) fn prefill(object: &Object<'_>) -> Bytes {
    let patch = Patch::new().set("max_tokens", &1).set("stream", &false);
    let without = ["max_completion_tokens", "min_tokens", "stream_options"];
    let patch = without.into_iter().fold(patch, |patch, name| match object.raw(name) {
        Some(_) => patch.remove(name),
        None => patch,
    });
    patch.apply(object).into()
}

/// What the target is to make of tokens.
pub(super) fn score(object: &Object<'_>, model: &str, tokens: &[u32]) -> Bytes {
    let mut body = continued(object, model, tokens);
    body.insert("max_tokens".into(), 1.into());
    body.insert("temperature".into(), 0.into());
    body.insert("prompt_logprobs".into(), 1.into());
    body.insert("stream".into(), false.into());
    Value::Object(body).to_string().into()
}

/// The target's answer from tokens on, `most` further ones at most.
pub(super) fn rest(object: &Object<'_>, model: &str, tokens: &[u32], most: u32) -> Bytes {
    let mut body = continued(object, model, tokens);
    body.insert("max_tokens".into(), most.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), serde_json::json!({"include_usage": true}));
    body.insert("return_token_ids".into(), true.into());
    Value::Object(body).to_string().into()
}

fn continued(object: &Object<'_>, model: &str, tokens: &[u32]) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), model.into());
    body.insert("prompt".into(), tokens.into());
    for name in CARRIED {
        let value = object.raw(name).and_then(|raw| serde_json::from_str(raw).ok());
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    }
    body
}

/// The prompt's tokens, as `/tokenize` is asked for them.
pub(super) fn tokens(object: &Object<'_>, model: &str) -> Bytes {
    let mut patch = Patch::new().set("model", &model);
    for name in ["messages", "prompt", "chat_template_kwargs"] {
        if let Some(raw) = object.raw(name) {
            patch = patch.set_raw(name, raw);
        }
    }
    let nothing = Object::parse(b"{}").expect("an empty object is one");
    patch.apply(&nothing).into()
}

/// What `/tokenize` answered.
pub(super) fn read_tokens(answer: &[u8]) -> Option<Vec<u32>> {
    #[derive(Deserialize)]
    struct Told {
        tokens: Vec<u32>,
    }
    serde_json::from_slice(answer).ok().map(|told: Told| told.tokens)
}

/// What the target makes of the tokens it was given.
#[derive(Debug)]
pub(super) struct Score {
    /// One for each of the last tokens.
    pub(super) rows: Vec<TargetRow>,
    /// Whether the target would end behind them.
    pub(super) ends: bool,
}

/// Reads what was answered to [`score`], for the last tokens: `drafted` are their ids.
pub(super) fn read_score(answer: &[u8], drafted: &[u32]) -> Option<Score> {
    #[derive(Deserialize)]
    struct Told<'a> {
        #[serde(borrow)]
        choices: Vec<Choice<'a>>,
    }
    #[derive(Deserialize)]
    struct Choice<'a> {
        #[serde(borrow)]
        prompt_logprobs: Vec<&'a RawValue>,
        finish_reason: Option<String>,
    }
    #[derive(Deserialize)]
    struct Entry {
        logprob: f64,
        rank: Option<u32>,
    }
    let told: Told<'_> = serde_json::from_slice(answer).ok()?;
    let [choice] = <[Choice<'_>; 1]>::try_from(told.choices).ok()?;
    let first = choice.prompt_logprobs.len().checked_sub(drafted.len())?;
    let rows = drafted.iter().zip(&choice.prompt_logprobs[first..]).map(|(&token, raw)| {
        let entries: BTreeMap<u32, Entry> = serde_json::from_str(raw.get()).ok()?;
        let own = entries.get(&token)?;
        let by_rank = |one: &(&u32, &Entry)| one.1.rank.unwrap_or(u32::MAX);
        let (best, likeliest) = entries.iter().min_by_key(by_rank)?;
        Some(TargetRow {
            best: TokenId(*best),
            best_logprob: LogProb::from_nats(likeliest.logprob),
            logprob: LogProb::from_nats(own.logprob),
        })
    });
    let rows = rows.collect::<Option<Vec<_>>>()?;
    Some(Score { rows, ends: choice.finish_reason.as_deref() == Some("stop") })
}
