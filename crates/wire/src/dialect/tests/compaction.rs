//! Compaction: what is asked of the worker, what stays of the conversation, and how the summary comes back.

use serde_json::{Value, json};

use super::{OpenSeal, chat_of_response, refuses_response, response};
use crate::dialect::responses::{Compaction, Identity, Request, Summary};
use crate::error::ApiError;

fn identity() -> Identity {
    Identity { id: "resp_1".to_owned(), created_at: 7, model: Some("m".to_owned()) }
}

fn asked(more: Value) -> Result<(Value, Summary), ApiError> {
    let body = response(more);
    let (chat, summary) = Compaction::parse(&body)?.translate(identity(), &[], &OpenSeal)?;
    Ok((serde_json::from_slice(&chat.body).unwrap(), summary))
}

fn conversation() -> Value {
    json!([
        {"type": "message", "role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "input_text", "text": "do it"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "it is"}]},
        {"type": "compaction", "encrypted_content": "sealed:older"},
    ])
}

#[test]
fn the_conversation_is_asked_for_its_summary_as_it_stands() {
    let tools = json!([{"type": "function", "name": "f"}]);
    let more = json!({"input": conversation(), "instructions": "S", "tools": tools, "temperature": 0.5,
        "text": {"format": {"type": "json_object"}}, "tool_choice": "required"});
    let (chat, _) = asked(more.clone()).unwrap();
    let whole = chat_of_response(more);
    let messages = chat["messages"].as_array().unwrap();
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(before, whole["messages"].as_array().unwrap(), "the worker's cache has it");
    assert_eq!(last["role"], "user");
    assert_eq!((&chat["tools"], &chat["tool_choice"]), (&whole["tools"], &json!("none")));
    assert_eq!((&chat["temperature"], chat.get("response_format")), (&json!(0.5), None));
}

#[track_caller]
fn object(answer: Value) -> Value {
    let (_, summary) = asked(json!({"input": conversation()})).unwrap();
    let object = summary.object(answer.to_string().as_bytes(), &OpenSeal).unwrap();
    serde_json::from_slice(&object).unwrap()
}

fn answer(text: &str, finish: &str) -> Value {
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "reasoning": "hm", "content": text},
        "finish_reason": finish}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
}

#[test]
fn the_messages_of_others_than_the_model_stay_and_a_summary_stands_for_the_rest() {
    let object = object(answer(" all is done \n", "stop"));
    let id = (&object["id"], &object["object"], &object["created_at"]);
    assert_eq!(id, (&json!("resp_1"), &json!("response.compaction"), &json!(7)));
    let output = object["output"].as_array().unwrap();
    let texts: Vec<&Value> = output[..2].iter().map(|item| &item["content"][0]["text"]).collect();
    assert_eq!(texts, ["be brief", "do it"]);
    assert!(output[..2].iter().all(|item| item["type"] == "message" && item["id"].is_string()));
    assert_eq!(output.len(), 3);
    assert_eq!(output[2]["encrypted_content"], "sealed:all is done");
    assert_eq!(object["usage"]["total_tokens"], 7);
    let chat = chat_of_response(json!({"input": output}));
    let last = chat["messages"].as_array().unwrap().last().unwrap();
    assert!(last["content"].as_str().unwrap().ends_with("all is done"), "{last}");
}

#[test]
fn what_no_value_can_hold_stays_as_it_was_sent() {
    let body = r#"{"model":"m","input":[{"id":7,"role":"user","content":[{"type":"input_text","text":"a","x":1e999,"y":1.10}]}]}"#;
    let compaction = Compaction::parse(body.as_bytes()).unwrap();
    let (_, summary) = compaction.translate(identity(), &[], &OpenSeal).unwrap();
    let object = summary.object(answer("s", "stop").to_string().as_bytes(), &OpenSeal).unwrap();
    let object = String::from_utf8(object).unwrap();
    assert!(
        object.contains(r#""content":[{"type":"input_text","text":"a","x":1e999,"y":1.10}]"#),
        "{object}"
    );
    // Half a character is found out when the text is read, and kept until then.
    let request = Request::parse(br#"{"model":"m","input":"\ud800"}"#).unwrap();
    let [item] = &request.input_items("r")[..] else { panic!("one item") };
    assert!(item.get().contains(r#""text":"\ud800""#), "{item}");
}

#[test]
fn a_summary_that_was_cut_says_so_and_none_is_no_answer() {
    let cut = object(answer("all", "length"));
    let sealed = cut["output"][2]["encrypted_content"].as_str().unwrap();
    assert!(sealed.contains("cut"), "{sealed}");
    let (_, summary) = asked(json!({"input": "hi"})).unwrap();
    let nothing = answer("", "stop").to_string();
    assert!(summary.object(nothing.as_bytes(), &OpenSeal).is_err());
}

#[test]
fn what_is_no_compaction_is_refused_by_name() {
    for name in ["stream", "background"] {
        let error = asked(json!({ name: true })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(name));
    }
    let foreign = json!([{"type": "compaction", "encrypted_content": "gAAAAAB"}]);
    refuses_response(json!({"input": foreign}), "isolation.salt_secret");
    let error = Compaction::parse(br#"{"model":"m"}"#).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("input"));
}
