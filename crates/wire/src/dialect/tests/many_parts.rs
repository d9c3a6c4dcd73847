//! Requests of very many parts: what they cost grows with their length, not with its square.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{chat_of_message, chat_of_response, to_chat, translated};

/// Members of one object: a body of the usual limit holds ten times as many. A look at all before for each would keep
/// this test for minutes.
const MEMBERS: usize = 200_000;

/// Calls and tools of one request.
const CALLS: usize = 20_000;

/// The rest of an object, with very many members of its own.
fn members() -> String {
    let mut text = String::new();
    for at in 0..MEMBERS {
        write!(text, r#","k{at}":1"#).unwrap();
    }
    text
}

#[test]
fn a_body_of_very_many_members_is_refused_by_one_that_is_unknown() {
    let turn = r#"{"role":"user","content":"hi"}"#;
    let message = format!(r#"{{"model":"m","max_tokens":9,"messages":[{turn}]{}}}"#, members());
    let response = format!(r#"{{"model":"m","input":[{turn}]{}}}"#, members());
    let refused = to_chat(message.as_bytes()).unwrap_err();
    assert!(refused.status() == 400 && refused.param.unwrap().starts_with('k'));
    let refused = translated(response.as_bytes()).unwrap_err();
    assert!(refused.status() == 400 && refused.param.unwrap().starts_with('k'));
}

#[test]
fn a_part_of_very_many_members_is_read_and_the_last_of_a_name_counts() {
    let turn = format!(r#"{{"role":"user","content":"no"{},"content":"hi"}}"#, members());
    let body = format!(r#"{{"model":"m","max_tokens":9,"messages":[{turn}]}}"#);
    let chat = to_chat(body.as_bytes()).unwrap().chat;
    let body: Value = serde_json::from_slice(&chat.body).unwrap();
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hi"}]));
    assert!(!chat.left_out.is_empty());
}

#[test]
fn very_many_results_of_other_calls_follow_very_many_calls() {
    let call =
        |at: usize| json!({"type": "tool_use", "id": format!("a{at}"), "name": "f", "input": {}});
    let result =
        |at: usize| json!({"type": "tool_result", "tool_use_id": format!("b{at}"), "content": "r"});
    let calls: Vec<Value> = (0..CALLS).map(call).collect();
    let results: Vec<Value> = (0..CALLS).map(result).collect();
    let chat = chat_of_message(json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]}));
    let messages = chat["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2 + CALLS);
    assert_eq!(messages[1]["tool_calls"].as_array().unwrap().len(), CALLS);
}

#[test]
fn very_many_tools_are_chosen_from_by_very_many_names() {
    let tool = |name: String| json!({"type": "function", "name": name});
    let tools: Vec<Value> = (0..CALLS).map(|at| tool(format!("a{at}"))).collect();
    let mut allowed: Vec<Value> = (0..CALLS).map(|at| tool(format!("b{at}"))).collect();
    allowed.push(tool("a7".to_owned()));
    let choice = json!({"type": "allowed_tools", "mode": "auto", "tools": allowed});
    let chat = chat_of_response(json!({"tools": tools, "tool_choice": choice}));
    let left = chat["tools"].as_array().unwrap();
    assert_eq!((left.len(), &left[0]["function"]["name"]), (1, &json!("a7")));
}
