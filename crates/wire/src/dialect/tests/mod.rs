//! Tests of the dialects: every row of the mapping tables, and streams against whole answers.

#![expect(clippy::needless_pass_by_value, reason = "JSON literals are handed over")]

mod compaction;
mod errors;
mod many_parts;
mod messages;
mod responses;
mod streams;

use std::sync::Arc;

use serde_json::{Value, json};

use super::messages::Request as MessagesRequest;
use super::responses::{Request, Seal, Translated};
use crate::error::ApiError;

/// A seal that everybody can open, but only if it is one.
#[derive(Debug)]
struct OpenSeal;

impl Seal for OpenSeal {
    fn seal(&self, text: &str) -> Option<String> {
        Some(format!("sealed:{text}"))
    }

    fn open(&self, sealed: &str) -> Option<String> {
        sealed.strip_prefix("sealed:").map(str::to_owned)
    }
}

fn seal() -> Arc<dyn Seal> {
    Arc::new(OpenSeal)
}

/// A Messages request with `more` of its fields.
fn message(more: Value) -> Vec<u8> {
    let mut body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    merge(&mut body, more);
    body.to_string().into_bytes()
}

/// A Responses request with `more` of its fields.
fn response(more: Value) -> Vec<u8> {
    let mut body = json!({"model": "m", "input": "hi"});
    merge(&mut body, more);
    body.to_string().into_bytes()
}

fn merge(body: &mut Value, more: Value) {
    let (Value::Object(body), Value::Object(more)) = (body, more) else { panic!("not objects") };
    body.extend(more);
}

fn to_chat(body: &[u8]) -> Result<MessagesRequest, ApiError> {
    super::messages::translate(body)
}

fn translated(body: &[u8]) -> Result<Translated, ApiError> {
    Request::parse(body)?.translate(&[], &OpenSeal)
}

/// The chat body of a Messages request.
#[track_caller]
fn chat_of_message(more: Value) -> Value {
    let body = message(more);
    let request = to_chat(&body).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    serde_json::from_slice(&request.chat.body).unwrap()
}

/// The chat body of a Responses request.
#[track_caller]
fn chat_of_response(more: Value) -> Value {
    let body = response(more);
    let request = translated(&body).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    serde_json::from_slice(&request.chat.body).unwrap()
}

/// A Messages request is refused, and the refusal says this word.
#[track_caller]
fn refuses_message(more: Value, word: &str) {
    let error = to_chat(&message(more)).expect_err(word);
    assert!(error.message.contains(word), "{error}");
    assert_eq!(error.status(), 400);
}

/// A Responses request is refused, and the refusal says this word.
#[track_caller]
fn refuses_response(more: Value, word: &str) {
    let error = translated(&response(more)).expect_err(word);
    assert!(error.message.contains(word), "{error}");
    assert_eq!(error.status(), 400);
}
