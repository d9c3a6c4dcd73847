//! Stream assembly: joins the chunks of a stream into the whole answer.

use serde_json::{Map, Value, json};

use super::chunks;

/// Choices of one answer at most.
const CHOICES_MAX: usize = 1_024;

/// The whole answer that a stream tells; `None` where it does not say all that a whole answer has, or
/// says what this does not know.
pub fn whole_of(events: &[u8]) -> Option<Vec<u8>> {
    let mut top: Option<Map<String, Value>> = None;
    let mut choices: Vec<Choice> = Vec::new();
    let mut usage = None;
    for mut chunk in chunks(events)? {
        let told = chunk.remove("choices")?;
        usage = chunk.remove("usage").filter(|usage| !usage.is_null()).or(usage);
        for choice in told.as_array()? {
            take(&mut choices, choice.as_object()?)?;
        }
        match &mut top {
            None => top = Some(chunk),
            // What only later chunks say would be lost.
            Some(top) => {
                let known =
                    |(name, value): (&String, &Value)| value.is_null() || top.contains_key(name);
                if !chunk.iter().all(known) {
                    return None;
                }
            }
        }
    }
    let mut top = top?;
    let (object, is_chat) = match top.get("object")?.as_str()? {
        "chat.completion.chunk" => ("chat.completion", true),
        "text_completion" => ("text_completion", false),
        _ => return None,
    };
    top.insert("object".to_owned(), object.into());
    let choices: Vec<Value> = choices.into_iter().map(|choice| choice.whole(is_chat)).collect();
    top.insert("choices".to_owned(), choices.into());
    top.insert("usage".to_owned(), usage?);
    serde_json::to_vec(&top).ok()
}

/// A choice in the making.
#[derive(Default)]
struct Choice {
    index: u64,
    message: Map<String, Value>,
    text: String,
    logprobs: Option<Map<String, Value>>,
    finish_reason: Value,
    more: Map<String, Value>,
}

fn take(choices: &mut Vec<Choice>, told: &Map<String, Value>) -> Option<()> {
    let index = told.get("index").map_or(Some(0), Value::as_u64)?;
    let at = choices.iter().position(|choice| choice.index == index);
    let at = match at {
        Some(at) => at,
        None if choices.len() < CHOICES_MAX => {
            choices.push(Choice { index, ..Choice::default() });
            choices.len() - 1
        }
        None => return None,
    };
    let choice = &mut choices[at];
    for (name, value) in told.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "index" => {}
            "delta" => choice.say(value.as_object()?)?,
            "text" => choice.text.push_str(value.as_str()?),
            "logprobs" => {
                append(choice.logprobs.get_or_insert_default(), value.as_object()?)?;
            }
            "finish_reason" => choice.finish_reason = value.clone(),
            "stop_reason" | "prompt_logprobs" | "prompt_token_ids" => {
                choice.more.insert(name.clone(), value.clone());
            }
            "token_ids" => {
                let ids: Map<String, Value> = [(name.clone(), value.clone())].into_iter().collect();
                append(&mut choice.more, &ids)?;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Puts arrays behind those of the same name.
fn append(to: &mut Map<String, Value>, from: &Map<String, Value>) -> Option<()> {
    for (name, value) in from {
        match (to.get_mut(name), value) {
            (Some(Value::Array(to)), Value::Array(more)) => to.extend(more.iter().cloned()),
            (None | Some(Value::Null), _) => {
                to.insert(name.clone(), value.clone());
            }
            (Some(_), Value::Null) => {}
            _ => return None,
        }
    }
    Some(())
}

impl Choice {
    /// Takes in what is new of a message.
    fn say(&mut self, delta: &Map<String, Value>) -> Option<()> {
        for (name, value) in delta.iter().filter(|(_, value)| !super::is_empty(value)) {
            match name.as_str() {
                "role" => {
                    self.message.insert(name.clone(), value.clone());
                }
                "content" | "reasoning_content" | "reasoning" | "refusal" => {
                    let more = value.as_str()?;
                    if let Some(Value::String(text)) = self.message.get_mut(name) {
                        text.push_str(more);
                    } else {
                        self.message.insert(name.clone(), more.into());
                    }
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn whole(self, is_chat: bool) -> Value {
        let mut choice = Map::new();
        choice.insert("index".to_owned(), self.index.into());
        if is_chat {
            let mut message = Map::new();
            for name in ["role", "content", "refusal"] {
                message.insert(name.to_owned(), Value::Null);
            }
            message.insert("role".to_owned(), "assistant".into());
            message.extend(self.message);
            choice.insert("message".to_owned(), message.into());
        } else {
            choice.insert("text".to_owned(), self.text.into());
        }
        choice.insert("logprobs".to_owned(), self.logprobs.map_or(Value::Null, Value::Object));
        choice.insert("finish_reason".to_owned(), self.finish_reason);
        choice.extend(self.more);
        json!(choice)
    }
}
