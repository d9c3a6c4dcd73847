//! Stream synthesis: splits a whole answer into the chunks of a stream.

use serde_json::{Map, Value, json};

use crate::request::StreamUsage;
use crate::sse;

/// What stands at the top of a whole answer and of each chunk alike.
const COMMON: [&str; 5] = ["id", "created", "model", "system_fingerprint", "service_tier"];

/// The stream that tells a whole answer; `None` where it says what a stream cannot, or what this does
/// not know.
pub fn events_of(answer: &[u8], usage_told: StreamUsage) -> Option<Vec<u8>> {
    let mut answer: Map<String, Value> = serde_json::from_slice(answer).ok()?;
    let object = match answer.remove("object")?.as_str()? {
        "chat.completion" => "chat.completion.chunk",
        "text_completion" => "text_completion",
        _ => return None,
    };
    let Value::Array(choices) = answer.remove("choices")? else { return None };
    let usage = answer.remove("usage").filter(|usage| !usage.is_null());
    let prompt = answer.remove("prompt_token_ids").filter(|ids| !ids.is_null());
    let mut top = Map::new();
    top.insert("id".to_owned(), answer.get("id")?.clone());
    top.insert("object".to_owned(), object.into());
    for (name, value) in answer.iter().filter(|(_, value)| !super::is_empty(value)) {
        if !COMMON.contains(&name.as_str()) {
            return None;
        }
        top.insert(name.clone(), value.clone());
    }
    let mut out = Out { top, prompt, events: Vec::with_capacity(1_024) };
    for choice in &choices {
        let choice = choice.as_object()?;
        if choice.contains_key("message") {
            chat(choice, &mut out)?;
        } else {
            text(choice, &mut out)?;
        }
    }
    if usage_told != StreamUsage::Never {
        out.top.insert("usage".to_owned(), usage?);
        out.say(Vec::new());
    }
    out.events.extend_from_slice(sse::DONE);
    Some(out.events)
}

struct Out {
    top: Map<String, Value>,
    /// The prompt's tokens, which the first chunk tells.
    prompt: Option<Value>,
    events: Vec<u8>,
}

impl Out {
    fn say(&mut self, choices: Vec<Value>) {
        let mut chunk = self.top.clone();
        let usage = chunk.remove("usage");
        chunk.insert("choices".to_owned(), choices.into());
        if let Some(prompt) = self.prompt.take() {
            chunk.insert("prompt_token_ids".to_owned(), prompt);
        }
        if let Some(usage) = usage {
            chunk.insert("usage".to_owned(), usage);
        }
        sse::write_data(&mut self.events, &chunk);
    }
}

/// A chat's choice: the role, what it says, how it ended.
fn chat(choice: &Map<String, Value>, out: &mut Out) -> Option<()> {
    let mut delta = Map::new();
    for (name, value) in choice.get("message")?.as_object()? {
        match name.as_str() {
            "role" => {}
            "content" | "reasoning_content" | "reasoning" | "refusal" if !value.is_null() => {
                delta.insert(name.clone(), value.clone());
            }
            _ if super::is_empty(value) => {}
            _ => return None,
        }
    }
    let index = choice.get("index")?;
    let opening = json!({"role": "assistant", "content": ""});
    out.say(vec![json!({
        "index": index, "delta": opening, "logprobs": null, "finish_reason": null
    })]);
    let (said, end) = split(choice)?;
    if !delta.is_empty() {
        out.say(vec![with(said, index, "delta", delta.into(), Value::Null)]);
    }
    let finish = choice.get("finish_reason")?.clone();
    out.say(vec![with(end, index, "delta", json!({}), finish)]);
    Some(())
}

/// A completion's choice: its text, how it ended.
fn text(choice: &Map<String, Value>, out: &mut Out) -> Option<()> {
    let index = choice.get("index")?;
    let (said, end) = split(choice)?;
    let text = choice.get("text")?.clone();
    out.say(vec![with(said, index, "text", text, Value::Null)]);
    let finish = choice.get("finish_reason")?.clone();
    out.say(vec![with(end, index, "text", "".into(), finish)]);
    Some(())
}

/// What of a choice goes with its words, and what with its end.
fn split(choice: &Map<String, Value>) -> Option<(Map<String, Value>, Map<String, Value>)> {
    let (mut said, mut end) = (Map::new(), Map::new());
    for (name, value) in choice.iter().filter(|(_, value)| !value.is_null()) {
        let to = match name.as_str() {
            "index" | "message" | "text" | "finish_reason" => continue,
            "logprobs" | "token_ids" | "prompt_logprobs" | "prompt_token_ids" => &mut said,
            "stop_reason" => &mut end,
            _ => return None,
        };
        to.insert(name.clone(), value.clone());
    }
    Some((said, end))
}

fn with(
    more: Map<String, Value>,
    index: &Value,
    name: &str,
    words: Value,
    finish_reason: Value,
) -> Value {
    let mut choice = Map::new();
    choice.insert("index".to_owned(), index.clone());
    choice.insert(name.to_owned(), words);
    choice.insert("logprobs".to_owned(), Value::Null);
    choice.insert("finish_reason".to_owned(), finish_reason);
    choice.extend(more);
    choice.into()
}
