//! The form in which a chat template takes messages, read off the template once.
//!
//! Templates differ in whether they go through a message's parts, take `null` for no content, and know
//! the role `developer`. Engines look for the same signs.

use minijinja::Environment;
use overdraft_wire::request::{Content, Message};
use serde_json::{Map, Value, json};

use super::content_loops::has_content_loop;
use super::environment;

/// The text of a message that is rendered to see what becomes of its parts.
const PROBE: &str = "overdraft-probe";
/// The role of instructions that OpenAI's newer models know.
const DEVELOPER: &str = "developer";

/// What a template takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habits {
    parts: Parts,
    null: Null,
    developer: Developer,
}

/// What a template makes of an array of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// It shows their texts, joined as it likes.
    Shown,
    /// It takes text only, or hides that it goes through parts: they are put on lines of their own, as vLLM does.
    Unknown,
}

/// What a template makes of a message without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Null {
    /// It asks whether there is content.
    AskedFor,
    /// It takes text only: an empty one, as vLLM gives it.
    Unknown,
}

/// Whether a template names the role `developer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Developer {
    Named,
    /// Such messages are `system`'s, as in vLLM.
    Unknown,
}

/// How calls and absent content are given: a template that fails on one form may take the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallForm {
    arguments: Arguments,
    content: NoContent,
}

/// How the arguments of calls are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    /// As an object; what is none becomes an empty one, as in vLLM.
    Parsed,
    /// As they came, for templates that add them to text.
    AsTheyCame,
}

/// What stands for content that is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoContent {
    /// `null` where the template asks for it, an empty text elsewhere.
    AsAskedFor,
    /// An empty text.
    Empty,
}

impl CallForm {
    /// All of them; the first that a template takes is right.
    pub(super) const ALL: [Self; 3] = [
        Self { arguments: Arguments::Parsed, content: NoContent::AsAskedFor },
        Self { arguments: Arguments::AsTheyCame, content: NoContent::AsAskedFor },
        Self { arguments: Arguments::Parsed, content: NoContent::Empty },
    ];
}

impl Habits {
    /// Those of the template `source` in `environment`.
    pub(super) fn of(source: &str, environment: &Environment<'static>) -> Self {
        let named = source.contains("'developer'") || source.contains("\"developer\"");
        Self {
            parts: if has_content_loop(source) && shows_parts(environment) {
                Parts::Shown
            } else {
                Parts::Unknown
            },
            null: if asks_for_null(source) { Null::AskedFor } else { Null::Unknown },
            developer: if named { Developer::Named } else { Developer::Unknown },
        }
    }

    /// A message as the template takes it.
    pub(super) fn message(self, message: &Message, form: CallForm) -> Value {
        let renamed = message.role == DEVELOPER && self.developer == Developer::Unknown;
        let mut fields = Map::new();
        let role = if renamed { "system" } else { &message.role };
        fields.insert("role".to_owned(), json!(role));
        fields.insert("content".to_owned(), self.content(message, form.content));
        if let Some(name) = &message.name {
            fields.insert("name".to_owned(), json!(name));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().cloned().map(|call| match form.arguments {
                Arguments::Parsed => with_parsed_arguments(call),
                Arguments::AsTheyCame => call,
            });
            fields.insert("tool_calls".to_owned(), Value::Array(calls.collect()));
        }
        if let Some(id) = &message.tool_call_id {
            fields.insert("tool_call_id".to_owned(), json!(id));
        }
        for (key, value) in &message.extra {
            if !(renamed && key == "tools") {
                fields.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        Value::Object(fields)
    }

    fn content(self, message: &Message, absent: NoContent) -> Value {
        let null = self.null == Null::AskedFor && absent == NoContent::AsAskedFor;
        match &message.content {
            None if null => Value::Null,
            None => json!(""),
            // Few templates look into what a tool answered; vLLM joins it for all.
            Some(Content::Parts(texts)) if self.parts == Parts::Shown && message.role != "tool" => {
                texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
            }
            Some(content) => json!(content.joined()),
        }
    }
}

/// Whether the texts of parts are shown, and not the array as such.
fn shows_parts(environment: &Environment<'static>) -> bool {
    let context = json!({
        "messages": [{"role": "user", "content": [{"type": "text", "text": PROBE}]}],
        "tools": null, "documents": null, "add_generation_prompt": true,
        "bos_token": "", "eos_token": "",
    });
    let context = minijinja::Value::from(minijinja::value::Serde(&context));
    let quoted = |text: &str, quote: char| text.contains(&format!("{quote}{PROBE}{quote}"));
    environment::render(environment, &context)
        .is_ok_and(|text| text.contains(PROBE) && !quoted(&text, '\'') && !quoted(&text, '"'))
}

/// Whether the template compares a message's content with `none`.
fn asks_for_null(source: &str) -> bool {
    source.match_indices("content").any(|(place, word)| {
        let part_of_a_name =
            source[..place].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let after = &source[place + word.len()..];
        let after = after.strip_prefix("']").or_else(|| after.strip_prefix("\"]")).unwrap_or(after);
        let mut words = after.split_whitespace();
        let asks = after.starts_with(' ') && words.next() == Some("is");
        !part_of_a_name && asks && words.find(|&word| word != "not").is_some_and(is_none)
    })
}

fn is_none(word: &str) -> bool {
    let letters = word.trim_end_matches(|after: char| !after.is_alphanumeric());
    letters == "none" || letters == "None"
}

/// OpenAI sends a call's arguments as a string of JSON; templates print them as an object.
fn with_parsed_arguments(mut call: Value) -> Value {
    if let Some(arguments) = call.pointer_mut("/function/arguments")
        && !arguments.is_object()
    {
        let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        *arguments = parsed.filter(Value::is_object).unwrap_or_else(|| json!({}));
    }
    call
}
