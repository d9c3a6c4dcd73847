//! Tokenize ask: what an engine's `/tokenize` is asked, so that it makes the prompt of a request.
//!
//! The members that shape a prompt are copied as they came. vLLM puts `documents` and `reasoning_effort` of a
//! chat among the template's variables; its `/tokenize` does not know them, so they are put there by us.
//! **Invariant:** what cannot be asked so gives nothing, never another prompt.

use serde_json::{Map, Value};

use overdraft_units::TokenId;

use crate::endpoint::Generation;
use crate::json::{Object, Patch};

/// Members of a chat that shape its prompt, with one meaning at both endpoints.
const CHAT_MEMBERS: [&str; 8] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "chat_template",
    "media_io_kwargs",
    "mm_processor_kwargs",
];

/// Variables of the template.
const KWARGS: &str = "chat_template_kwargs";

/// How the tokens of a request's first prompt are had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizeAsk {
    /// They stand in the request.
    Tokens(Vec<TokenId>),
    /// By this body, put to `/tokenize`.
    Body(Vec<u8>),
}

impl TokenizeAsk {
    /// Asks for the first prompt of a request to `model`; `None` where that cannot be asked.
    pub fn of(object: &Object<'_>, generation: Generation, model: &str) -> Option<Self> {
        let patch = Patch::new().set("model", &model);
        let patch = match generation {
            Generation::Chat => chat(object, patch)?,
            Generation::Completion => match first_prompt(object.raw("prompt")?)? {
                First::Tokens(tokens) => return Some(Self::Tokens(tokens)),
                First::Text(text) => {
                    copied(object, &["add_special_tokens"], patch.set("prompt", &text))
                }
            },
        };
        let empty = Object::parse(b"{}").ok()?;
        Some(Self::Body(patch.apply(&empty)))
    }
}

fn chat(object: &Object<'_>, patch: Patch) -> Option<Patch> {
    let patch = copied(object, &CHAT_MEMBERS, patch);
    object.raw("messages")?;
    let mut kwargs: Map<String, Value> = match object.raw(KWARGS) {
        Some(raw) => serde_json::from_str::<Option<_>>(raw).ok()?.unwrap_or_default(),
        None => Map::new(),
    };
    merge_template_fields(&mut kwargs, |name| {
        object.raw(name).and_then(|raw| serde_json::from_str(raw).ok())
    });
    Some(if kwargs.is_empty() { patch } else { patch.set(KWARGS, &kwargs) })
}

/// Puts the fields of a chat that vLLM gives to its template among the template's variables.
pub(super) fn merge_template_fields(
    kwargs: &mut Map<String, Value>,
    mut field: impl FnMut(&str) -> Option<Value>,
) {
    let mut given = |name: &str| field(name).filter(|value| !value.is_null());
    if let Some(documents) = given("documents") {
        kwargs.insert("documents".to_owned(), documents);
    }
    if let Some(effort) = given("reasoning_effort") {
        let thinks = effort.as_str() != Some("none");
        kwargs.entry("enable_thinking").or_insert(Value::Bool(thinks));
        kwargs.insert("reasoning_effort".to_owned(), effort);
    }
}

fn copied(object: &Object<'_>, names: &[&str], patch: Patch) -> Patch {
    let there = names.iter().filter_map(|name| Some((name, object.raw(name)?)));
    there
        .filter(|(_, raw)| *raw != "null")
        .fold(patch, |patch, (name, raw)| patch.set_raw(name, raw))
}

enum First {
    Text(String),
    Tokens(Vec<TokenId>),
}

/// The first of a completion's prompts.
fn first_prompt(raw: &str) -> Option<First> {
    let first = match serde_json::from_str(raw).ok()? {
        Value::Array(mut list) if list.first().is_some_and(|first| !first.is_number()) => {
            list.swap_remove(0)
        }
        one => one,
    };
    match first {
        Value::String(text) => Some(First::Text(text)),
        Value::Array(tokens) => {
            let token = |token: &Value| u32::try_from(token.as_u64()?).ok().map(TokenId);
            tokens.iter().map(token).collect::<Option<_>>().map(First::Tokens)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(generation: Generation, body: &str, expected: &str) {
        let object = Object::parse(body.as_bytes()).unwrap();
        let told = match TokenizeAsk::of(&object, generation, "m") {
            None => "nothing".to_owned(),
            Some(TokenizeAsk::Tokens(tokens)) => format!("{tokens:?}"),
            Some(TokenizeAsk::Body(body)) => String::from_utf8(body).unwrap(),
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn a_chat_is_asked_with_all_that_shapes_its_prompt() {
        check(
            Generation::Chat,
            r#"{"model":"x","messages":[{"role":"user"}],"temperature":0,"tools":null,
               "add_generation_prompt":false,"max_tokens":3}"#,
            r#"{"model":"m","messages":[{"role":"user"}],"add_generation_prompt":false}"#,
        );
        check(
            Generation::Chat,
            r#"{"messages":[],"chat_template_kwargs":{"a":1},"documents":[{"t":1}],
               "reasoning_effort":"none"}"#,
            r#"{"model":"m","messages":[],"chat_template_kwargs":{"a":1,"documents":[{"t":1}],"enable_thinking":false,"reasoning_effort":"none"}}"#,
        );
        check(Generation::Chat, r#"{"prompt":"text"}"#, "nothing");
    }

    #[test]
    fn of_several_prompts_the_first_counts_and_tokens_need_nobody() {
        let completion = |body: &str, expected: &str| check(Generation::Completion, body, expected);
        let asked = r#"{"model":"m","prompt":"a"}"#;
        completion(r#"{"prompt":"a"}"#, asked);
        completion(r#"{"prompt":["a","b"]}"#, asked);
        completion(
            r#"{"prompt":"a","add_special_tokens":false}"#,
            r#"{"model":"m","prompt":"a","add_special_tokens":false}"#,
        );
        completion(r#"{"prompt":[1,2]}"#, "[TokenId(1), TokenId(2)]");
        completion(r#"{"prompt":[[3,4],[5]]}"#, "[TokenId(3), TokenId(4)]");
        completion(r#"{"prompt":{}}"#, "nothing");
        completion(r#"{"prompt":[]}"#, "[]");
    }
}
