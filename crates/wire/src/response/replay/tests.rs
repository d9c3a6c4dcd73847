//! From one form to the other, and what is refused on the way.

use serde_json::{Value, json};

use super::*;
use crate::request::StreamUsage;
use crate::sse;

fn whole(message: Value, finish: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    })
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text, "refusal": null})
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

fn chunk(choices: Value, usage: Option<Value>) -> Value {
    let mut chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m",
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    chunk
}

fn stream(chunks: &[Value]) -> Vec<u8> {
    let mut events: Vec<u8> = chunks.iter().flat_map(sse::data).collect();
    events.extend_from_slice(sse::DONE);
    events
}

fn usage_told() -> Value {
    json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
}

fn told(delta: Value, finish: Value) -> Value {
    json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}])
}

fn greeting() -> Vec<u8> {
    stream(&[
        chunk(told(json!({"role": "assistant", "content": ""}), Value::Null), None),
        chunk(told(json!({"content": "hel"}), Value::Null), None),
        chunk(told(json!({"content": "lo"}), Value::Null), None),
        chunk(told(json!({}), "stop".into()), None),
        chunk(json!([]), Some(usage_told())),
    ])
}

#[test]
fn a_stream_becomes_the_whole_answer_that_it_tells() {
    let answer: Value = serde_json::from_slice(&whole_of(&greeting()).unwrap()).unwrap();
    assert_eq!(answer, whole(said("hello"), "stop"));
}

#[test]
fn a_whole_answer_becomes_a_stream_with_a_role_words_an_end_and_its_usage() {
    let answer = whole(said("hello"), "length");
    let events = events_of(&bytes(&answer), StreamUsage::Last).unwrap();
    let text = String::from_utf8(events.clone()).unwrap();
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word} in {text}"));
    assert!(at("\"role\"") < at("hello") && at("hello") < at("\"length\""));
    assert!(at("\"length\"") < at("prompt_tokens") && text.ends_with("data: [DONE]\n\n"));
    let back: Value = serde_json::from_slice(&whole_of(&events).unwrap()).unwrap();
    assert_eq!(back, answer);
    let silent = events_of(&bytes(&answer), StreamUsage::Never).unwrap();
    assert!(!String::from_utf8(silent.clone()).unwrap().contains("usage"));
    assert_eq!(without_usage(&events), silent);
}

#[test]
fn a_completion_goes_both_ways_with_its_log_probabilities() {
    let logprobs = json!({
        "text_offset": [0, 1], "token_logprobs": [null, -0.5], "tokens": ["a", "b"], "top_logprobs": null
    });
    let answer = json!({
        "id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m",
        "choices": [
            {"index": 0, "text": "ab", "logprobs": logprobs, "finish_reason": "stop", "stop_reason": 9},
            {"index": 1, "text": "c", "logprobs": null, "finish_reason": "length"},
        ],
        "usage": usage_told(),
    });
    let events = events_of(&bytes(&answer), StreamUsage::Last).unwrap();
    let mut back: Value = serde_json::from_slice(&whole_of(&events).unwrap()).unwrap();
    // A null that a stream leaves out means nothing.
    back["choices"][0]["logprobs"]["top_logprobs"] = Value::Null;
    assert_eq!(back, answer);
}

#[test]
fn what_would_be_lost_is_not_converted() {
    let mut odd = whole(said("hello"), "stop");
    odd["x_new"] = json!({"kept": 1});
    assert_eq!(events_of(&bytes(&odd), StreamUsage::Never), None);
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "t"}]});
    assert_eq!(events_of(&bytes(&whole(calls, "tool_calls")), StreamUsage::Never), None);
    let sounds = chunk(told(json!({"audio": {"id": "a"}}), Value::Null), None);
    assert_eq!(whole_of(&stream(&[sounds, chunk(json!([]), Some(usage_told()))])), None);
    // Without its usage it is not all of a whole answer, and without `[DONE]` not all of a stream.
    assert_eq!(whole_of(&without_usage(&greeting())), None);
    assert_eq!(whole_of(&greeting()[..greeting().len() - sse::DONE.len()]), None);
}

#[test]
fn an_answer_says_how_it_ended() {
    let finished = |message: Value, finish: &str, choices: u32| {
        summary_of_whole(&bytes(&whole(message, finish)), choices).unwrap().finished
    };
    assert_eq!(finished(said("a"), "stop", 1), Finished::Complete);
    assert_eq!(finished(said("a"), "length", 1), Finished::Complete);
    assert_eq!(finished(said("a"), "stop", 2), Finished::Otherwise);
    assert_eq!(finished(said("a"), "content_filter", 1), Finished::Otherwise);
    assert_eq!(finished(said("a"), "tool_calls", 1), Finished::Calls);
    let calls = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "t"}]});
    assert_eq!(finished(calls, "stop", 1), Finished::Calls);
    let summary = summary_of_events(&greeting(), 1).unwrap();
    assert_eq!(summary.finished, Finished::Complete);
    assert_eq!(summary.usage.unwrap().completion_tokens, 2);
    assert_eq!(summary_of_events(&greeting()[..200], 1), None);
    assert_eq!(summary_of_whole(br#"{"error":{"message":"no"}}"#, 1), None);
    let error = stream(&[json!({"error": {"message": "no"}})]);
    assert_eq!(summary_of_events(&error, 1), None);
}
