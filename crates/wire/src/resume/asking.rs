//! Resume requests: the body that has a second worker go on, by ids or by text.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::members::{CARRIED, parsed};
use crate::endpoint::Generation;
use crate::json::{Object, Patch};

/// What is left of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Tokens at most; `None` where there is no limit.
    pub most: Option<u32>,
    /// Tokens at least.
    pub least: u32,
}

/// The request for a completion after `ids`, prompt and answer. `said` is how often the answer has each token:
/// frequency penalties charge for those only that a request has generated itself, so that biases carry them over.
pub fn by_ids(
    object: &Object<'_>,
    ids: &[u32],
    left: Left,
    seed: Option<i64>,
    said: &[(u32, u32)],
) -> Map<String, Value> {
    let mut body = Map::new();
    for name in CARRIED {
        if let Some(value) = parsed(object, name).filter(|value| !value.is_null()) {
            body.insert(name.to_owned(), value);
        }
    }
    let penalty = body.get("frequency_penalty").and_then(Value::as_f64).unwrap_or(0.0);
    if penalty != 0.0 && !said.is_empty() {
        let biases = body.entry("logit_bias").or_insert_with(|| json!({}));
        for (id, times) in said {
            let id = id.to_string();
            let own = biases[&id].as_f64().unwrap_or(0.0);
            biases[&id] = json!(own - penalty * f64::from(*times));
        }
    }
    body.insert("prompt".into(), ids.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if let Some(most) = left.most {
        body.insert("max_tokens".into(), most.into());
    }
    if left.least > 0 {
        body.insert("min_tokens".into(), left.least.into());
    }
    if let Some(seed) = seed {
        body.insert("seed".into(), seed.into());
    }
    body
}

/// The client's request with `text` as the beginning of its answer; nothing where its form does not allow that.
pub fn by_text(
    object: &Object<'_>,
    generation: Generation,
    text: &str,
    left: Left,
) -> Option<Vec<u8>> {
    let mut patch = match generation {
        Generation::Chat => Patch::new()
            .set_raw("messages", &messages(object, text)?)
            .set("continue_final_message", &true)
            .set("add_generation_prompt", &false),
        Generation::Completion => Patch::new().set("prompt", &prompt(object, text)?),
    };
    if let Some(most) = left.most {
        let has = |name: &str| object.raw(name).is_some_and(|raw| raw != "null");
        let is_total = generation == Generation::Chat && has("max_completion_tokens");
        patch = patch.set(if is_total { "max_completion_tokens" } else { "max_tokens" }, &most);
    }
    if object.raw("min_tokens").is_some() {
        patch = patch.set("min_tokens", &left.least);
    }
    Some(patch.apply(object))
}

/// The messages with `text` behind them: as an answer of its own, or at the end of the one that the client has
/// continued.
fn messages(object: &Object<'_>, text: &str) -> Option<String> {
    let raw = object.raw("messages")?;
    let is_begun = object.raw("continue_final_message").is_some_and(|raw| raw == "true");
    if !is_begun {
        let list = raw.trim_end().strip_suffix(']')?;
        let comma = if list.trim_end().ends_with('[') { "" } else { "," };
        let message = json!({"role": "assistant", "content": text});
        return Some(format!("{list}{comma}{message}]"));
    }
    let mut list: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    let last = Object::parse(list.pop()?.get().as_bytes()).ok()?;
    let begun: String = serde_json::from_str(last.raw("content")?).ok()?;
    let patched = Patch::new().set("content", &(begun + text)).apply(&last);
    let mut texts: Vec<&str> = list.iter().map(|message| message.get()).collect();
    let patched = String::from_utf8(patched).ok()?;
    texts.push(&patched);
    Some(format!("[{}]", texts.join(",")))
}

fn prompt(object: &Object<'_>, text: &str) -> Option<String> {
    let prompt = match parsed(object, "prompt")? {
        Value::String(prompt) => prompt,
        Value::Array(list) if list.len() == 1 => list[0].as_str()?.to_owned(),
        _ => return None,
    };
    Some(prompt + text)
}

/// The request for the text of `ids`.
pub fn detokenize(model: &str, ids: &[u32]) -> Vec<u8> {
    json!({"model": model, "tokens": ids}).to_string().into_bytes()
}

/// The text in an answer to that, in vLLM's form or llama-server's.
pub fn text_of_detokenized(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Text {
        #[serde(alias = "content", alias = "text")]
        prompt: String,
    }
    serde_json::from_slice::<Text>(answer).ok().map(|text| text.prompt)
}
