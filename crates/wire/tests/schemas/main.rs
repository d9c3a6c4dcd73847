//! The published request schemas: each field and variant is carried, translated, told as left out, a hint, or refused by name.
//!
//! `data/published.py` writes the schemas from the official SDKs. A field that nobody thought of makes the test fail, and so
//! does a fate that no field meets any more.

mod fates;
mod schema;
mod walk;

use std::sync::Arc;

use overdraft_wire::dialect::responses::{
    Compaction, Course, Identity, Keeping, Request, Seal, Writer, object,
};
use overdraft_wire::dialect::{Chat, messages};
use serde_json::{Value, json};

use crate::fates::{OF_MESSAGES, OF_RESPONSES, UNCOMPACTED, UNCOUNTED};
use crate::schema::Schema;
use crate::walk::{Outcome, Walk};

const MESSAGES: &str = include_str!("../data/messages.json");
const RESPONSES: &str = include_str!("../data/responses.json");

/// Fields that a walk meets at least; one that meets fewer has lost its way.
const FIELDS_MIN: usize = 100;

/// Opens whatever it is given, as it were its own.
#[derive(Debug)]
struct OpenSeal;

impl Seal for OpenSeal {
    fn seal(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn open(&self, sealed: &str) -> Option<String> {
        Some(sealed.to_owned())
    }
}

/// What becomes of a request to Anthropic's dialect.
fn of_message(body: &Value) -> Outcome {
    let request = messages::translate(body.to_string().as_bytes())?;
    Ok(json!({"chat": read(&request.chat.body), "left_out": request.chat.left_out}))
}

fn of_message_count(body: &Value) -> Outcome {
    let prompt = messages::prompt(body.to_string().as_bytes())?;
    Ok(of_prompt(&prompt.chat, prompt.images))
}

fn of_prompt(chat: &Chat, images: usize) -> Value {
    json!({"chat": read(&chat.body), "left_out": chat.left_out, "images": images})
}

fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("a translation is JSON")
}

/// What becomes of a request to OpenAI's dialect: the chat, what is kept, and what the object says of it.
fn of_response(body: &Value) -> Outcome {
    let bytes = body.to_string().into_bytes();
    let request = Request::parse(&bytes)?;
    let (stored, background) =
        (request.keeping == Keeping::Stored, request.course == Course::Background);
    let previous = request.previous.clone();
    let translated = request.translate(&[], &OpenSeal)?;
    let (chat, left_out) = (read(&translated.chat.body), translated.chat.left_out.clone());
    let call = json!({"id": "c", "function": {"name": "f", "arguments": "{}"}});
    let logprobs = json!({"content": [{"token": "said", "logprob": -1, "top_logprobs": []}]});
    let message = json!({"reasoning": "thought", "content": "said", "tool_calls": [call]});
    let answer = json!({"model": "w", "choices": [{"message": message, "logprobs": logprobs, "finish_reason": "stop"}]});
    let identity = Identity { id: "resp_1".to_owned(), created_at: 1, model: None };
    let writer = Writer::new(identity, translated, Arc::new(OpenSeal));
    let whole = object(answer.to_string().as_bytes(), writer).expect("it is an answer");
    let mut whole = read(&whole);
    // The object repeats these as they came, whatever was done with them.
    for name in ["tools", "tool_choice", "text"] {
        whole.as_object_mut().expect("it is an object").remove(name);
    }
    Ok(json!({"chat": chat, "left_out": left_out, "stored": stored, "background": background,
        "previous": previous, "object": whole}))
}

fn of_response_count(body: &Value) -> Outcome {
    let bytes = body.to_string().into_bytes();
    let request = Request::parse(&bytes)?;
    let previous = request.previous.clone();
    let prompt = request.prompt(&[], &OpenSeal)?;
    let mut outcome = of_prompt(&prompt.chat, prompt.images);
    outcome["previous"] = json!(previous);
    Ok(outcome)
}

fn of_compaction(body: &Value) -> Outcome {
    let bytes = body.to_string().into_bytes();
    let compaction = Compaction::parse(&bytes)?;
    let previous = compaction.previous().map(str::to_owned);
    let identity = Identity { id: "resp_1".to_owned(), created_at: 1, model: None };
    let (chat, summary) = compaction.translate(identity, &[], &OpenSeal)?;
    let answer = json!({"choices": [{"message": {"content": "said"}, "finish_reason": "stop"}]});
    let object = summary.object(answer.to_string().as_bytes(), &OpenSeal).expect("it is an answer");
    Ok(json!({"chat": read(&chat.body), "left_out": chat.left_out, "previous": previous,
        "object": read(&object)}))
}

/// Elements that stand before others, so that these need not stand for themselves.
fn before(list: &str) -> Vec<Value> {
    match list {
        "messages" | "input" => vec![json!({"role": "user", "content": "hi"})],
        "tools" => {
            vec![json!({"type": "function", "name": "f", "parameters": {}, "input_schema": {}})]
        }
        _ => Vec::new(),
    }
}

/// The least request with tools and a conversation.
fn base(list: &str) -> Value {
    let mut base = json!({"model": "m", "max_tokens": 9, "tools": before("tools")});
    base[list] = before(list).into();
    base
}

/// The same for an answer of OpenAI's.
fn response_base() -> Value {
    let mut base = base("input");
    base.as_object_mut().expect("it is an object").remove("max_tokens");
    base
}

/// Walks over all requests of a purpose; fates that no field met.
#[track_caller]
fn walk(schema: &Schema, purpose: &str, base: &Value, mut walk: Walk<'_>) -> Vec<&'static str> {
    for root in schema.roots(purpose) {
        walk.request(root, base);
    }
    let (fields, faults) = walk.faults();
    let shown = Vec::from_iter(faults).join("\n");
    assert!(shown.is_empty() && FIELDS_MIN < fields, "{fields} fields:\n{shown}");
    walk.unmet()
}

const NONE: [&str; 0] = [];

#[test]
fn every_field_of_messages_has_a_fate() {
    let schema = Schema::parse(MESSAGES);
    let over = Walk::new(&schema, OF_MESSAGES, &of_message, &before);
    assert_eq!(walk(&schema, "create", &base("messages"), over), NONE);
}

#[test]
fn every_field_of_responses_has_a_fate() {
    let schema = Schema::parse(RESPONSES);
    let over = Walk::new(&schema, OF_RESPONSES, &of_response, &before);
    assert_eq!(walk(&schema, "create", &response_base(), over), NONE);
}

#[test]
fn every_field_of_a_prompt_is_counted() {
    let schema = Schema::parse(MESSAGES);
    let over = Walk::new(&schema, OF_MESSAGES, &of_message_count, &before).with_hints(UNCOUNTED);
    walk(&schema, "count", &base("messages"), over);
    let schema = Schema::parse(RESPONSES);
    let over = Walk::new(&schema, OF_RESPONSES, &of_response_count, &before).with_hints(UNCOUNTED);
    walk(&schema, "count", &response_base(), over);
}

#[test]
fn every_field_of_a_compaction_has_a_fate() {
    let schema = Schema::parse(RESPONSES);
    let over = Walk::new(&schema, OF_RESPONSES, &of_compaction, &before).with_hints(UNCOMPACTED);
    walk(&schema, "compact", &response_base(), over);
}

/// A tool that stands alone is a function, or refused by its type.
#[track_caller]
fn check_tools(text: &str, base: &Value, ask: fn(&Value) -> Outcome) {
    let schema = Schema::parse(text);
    let roots = schema.roots("create");
    let fields = roots.iter().flat_map(|root| schema.fields(root));
    let tools: Vec<_> = fields.filter(|field| field.name == "tools").collect();
    assert_eq!(tools.len(), roots.len());
    for sample in tools.iter().flat_map(|field| schema.samples(field.kind, field.name)) {
        let mut body = base.clone();
        body["tools"].clone_from(&sample.value);
        let kind = sample.element()["type"].as_str().unwrap_or("custom");
        match ask(&body) {
            Ok(outcome) => assert!(outcome["chat"]["tools"][0].is_object(), "{kind}: {outcome}"),
            Err(error) => assert!(error.message.contains(kind), "{kind}: {error}"),
        }
    }
}

#[test]
fn a_tool_alone_is_a_function_or_refused_by_its_type() {
    check_tools(MESSAGES, &base("messages"), of_message);
    check_tools(RESPONSES, &response_base(), of_response);
}

#[test]
fn a_field_of_tomorrow_is_refused_by_its_name() {
    for (mut body, ask) in [
        (base("messages"), of_message as fn(&Value) -> Outcome),
        (base("messages"), of_message_count),
        (response_base(), of_response),
        (response_base(), of_response_count),
    ] {
        body["of_tomorrow"] = json!(1);
        let error = ask(&body).expect_err("nobody knows it");
        assert_eq!(error.param.as_deref(), Some("of_tomorrow"));
    }
}
