//! Rows of the mapping from Messages to chat.

use serde_json::{Value, json};

use super::{chat_of_message, message, refuses_message, to_chat};
use crate::dialect::messages::{Identity, Told, object, prompt};

/// The chat messages of these turns.
#[track_caller]
fn check_turns(turns: Value, expected: &Value) {
    let chat = chat_of_message(json!({ "messages": turns }));
    assert_eq!(chat["messages"], *expected);
}

/// The chat messages of a user's turn after a call `a` and a call `b`.
#[track_caller]
fn check_results(blocks: Value, expected: Value) {
    let calls = json!([
        {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {"x": 1}},
    ]);
    let turns = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": blocks},
    ]);
    let chat = chat_of_message(json!({ "messages": turns }));
    let messages = chat["messages"].as_array().unwrap();
    assert_eq!(Value::from(messages[2..].to_vec()), expected);
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = json!([function("a", "f", "{}"), function("b", "g", r#"{"x":1}"#)]);
    assert_eq!(messages[1], json!({"role": "assistant", "content": null, "tool_calls": calls}));
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

fn result(id: &str, content: Value) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
}

fn image(data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
}

#[test]
fn fields_become_those_of_chat() {
    let sent = json!({
        "stop_sequences": ["a", "b"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stream": true,
        "metadata": {"user_id": "{\"session\":1}"},
        "output_config": {"effort": "max", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "thinking": {"type": "disabled"},
        "service_tier": "auto",
        "context_management": {"edits": []},
        "cache_control": {"type": "ephemeral"},
        "container": null,
        "mcp_servers": [],
    });
    let expected = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "stop": ["a", "b"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "chat_template_kwargs": {"enable_thinking": false, "thinking": false},
        "reasoning_effort": "high",
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "output", "schema": {"type": "object"}}},
        "user": "{\"session\":1}",
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(chat_of_message(sent), expected);
    let least = chat_of_message(json!({}));
    assert_eq!(
        least,
        json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9})
    );
}

#[test]
fn numbers_and_schemas_keep_their_text() {
    let body = br#"{"model":"m","max_tokens":1,"temperature":0.50,"messages":[
        {"role":"user","content":"q"},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":
            { "z" : 123456789012345678901234567890, "a" : "b c", "e": 1.0e-7 }}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}],
        "tools":[{"name":"f","input_schema":{"z":1.50, "a":{}}}]}"#;
    let chat = String::from_utf8(to_chat(body).unwrap().chat.body).unwrap();
    for kept in [
        r#""temperature":0.50"#,
        r#"{\"z\":123456789012345678901234567890,\"a\":\"b c\",\"e\":1.0e-7}"#,
        r#""parameters":{"z":1.50, "a":{}}"#,
    ] {
        assert!(chat.contains(kept), "{kept} in {chat}");
    }
}

#[test]
fn the_system_prompt_leads_in_one_message() {
    let system = |system: Value| chat_of_message(json!({ "system": system }))["messages"].clone();
    let expected = |text: &str| json!([{"role": "system", "content": text}, {"role": "user", "content": "hi"}]);
    assert_eq!(system(json!("S.")), expected("S."));
    assert_eq!(system(json!([text("A."), text(""), text("B.")])), expected("A.\n\nB."));
    let billing = "x-anthropic-billing-header: cch=1;";
    assert_eq!(system(json!([text(billing), text("B.")])), expected("B."));
    assert_eq!(system(json!(format!("{billing}\nB."))), expected("B."));
    let talk = "What is an x-anthropic-billing-header?";
    assert_eq!(system(json!(talk)), expected(talk));
    for nothing in [json!(""), json!([]), json!([text("")]), json!(null)] {
        assert_eq!(system(nothing), json!([{"role": "user", "content": "hi"}]));
    }
    refuses_message(json!({"system": [image("QQ==")]}), "image");
    refuses_message(json!({"system": 5}), "system");
}

#[test]
fn a_late_system_message_is_a_reminder_behind_the_results() {
    let reminder =
        json!({"role": "user", "content": "<system-reminder>\nlate\n</system-reminder>"});
    check_turns(
        json!([{"role": "user", "content": "a"}, {"role": "system", "content": "late"}]),
        &json!([{"role": "user", "content": "a"}, reminder]),
    );
    check_turns(
        json!([{"role": "system", "content": "early"}, {"role": "user", "content": "a"}]),
        &json!([{"role": "system", "content": "early"}, {"role": "user", "content": "a"}]),
    );
    let call = json!([{"type": "tool_use", "id": "a", "name": "f", "input": {}}]);
    let chat = chat_of_message(json!({"messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": call},
        {"role": "system", "content": "late"},
        {"role": "user", "content": [result("a", json!("r"))]},
    ]}));
    let messages = chat["messages"].as_array().unwrap();
    assert_eq!(messages[2..], [tool("a", "r"), reminder]);
}

#[test]
fn results_come_before_whatever_else_the_user_says() {
    check_results(
        json!([
            text("before"),
            result("a", json!("A")),
            text("between"),
            result("b", json!([text("1"), text("2")]))
        ]),
        json!([tool("a", "A"), tool("b", "1\n2"), {"role": "user", "content": "before\nbetween"}]),
    );
    let failed = |content: &str| json!([{"type": "tool_result", "tool_use_id": "a", "content": content, "is_error": true}]);
    check_results(failed("no"), json!([tool("a", "Error: no")]));
    check_results(failed(""), json!([tool("a", "Error: the tool failed")]));
    check_results(json!([{"type": "tool_result", "tool_use_id": "a"}]), json!([tool("a", "")]));
    let picture = |data: &str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    check_results(
        json!([
            result("a", json!([text("t"), image("QQ==")])),
            result("b", json!([image("Qg==")])),
            text("and?")
        ]),
        json!([tool("a", "t"), tool("b", ""), {"role": "user", "content":
            [picture("QQ=="), picture("Qg=="), {"type": "text", "text": "and?"}]}]),
    );
}

#[test]
fn an_assistant_s_turn_is_one_message() {
    check_turns(
        json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "T", "signature": ""},
                {"type": "redacted_thinking", "data": "opaque"},
                text("x"),
                {"type": "tool_use", "id": "i:0", "name": "f", "input": {}, "caller": {"type": "direct"}},
                text("y"),
            ]},
            {"role": "user", "content": [result("i:0", json!("r"))]},
        ]),
        &json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "x\ny", "reasoning_content": "T", "reasoning": "T",
                "tool_calls": [{"id": "i:0", "type": "function",
                    "function": {"name": "f", "arguments": "{}"}}]},
            tool("i:0", "r"),
        ]),
    );
}

#[test]
fn thoughts_are_told_where_they_are_asked_for() {
    for (thinking, told) in [
        (json!(null), Told::ButThoughts),
        (json!({"type": "disabled"}), Told::ButThoughts),
        (json!({"type": "enabled", "budget_tokens": 2_048}), Told::All),
        (json!({"type": "adaptive"}), Told::All),
    ] {
        let request = to_chat(&message(json!({ "thinking": thinking }))).unwrap();
        assert_eq!(request.told, told, "{thinking}");
    }
}

#[test]
fn a_prompt_for_the_cache_alone_is_asked_for_one_token() {
    let thinking = json!({"type": "enabled"});
    let request = to_chat(&message(json!({"max_tokens": 0, "thinking": thinking}))).unwrap();
    assert_eq!(request.told, Told::Nothing);
    let chat: Value = serde_json::from_slice(&request.chat.body).unwrap();
    assert_eq!(chat["max_tokens"], 1);
}

#[test]
fn a_trailing_text_of_the_assistant_s_is_a_prefill() {
    let turns = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "So"}]);
    let chat = chat_of_message(json!({ "messages": turns }));
    assert_eq!(
        (&chat["continue_final_message"], &chat["add_generation_prompt"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(chat_of_message(json!({})).get("continue_final_message"), None);
}

#[test]
fn blocks_are_carried_or_refused_by_their_type() {
    let user =
        |block: Value| json!({"messages": [{"role": "user", "content": [text("x"), block]}]});
    for (block, expected) in [
        (
            json!({"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "D"}}),
            "x\nT\nD",
        ),
        (
            json!({"type": "document", "source": {"type": "content", "content": [text("1"), text("2")]}}),
            "x\n1\n2",
        ),
        (
            json!({"type": "search_result", "title": "T", "source": "S", "content": [text("hit")]}),
            "x\nT\nS\nhit",
        ),
        (json!({"type": "tool_reference", "tool_name": "Read"}), "x\nTool: Read"),
    ] {
        assert_eq!(chat_of_message(user(block))["messages"][0]["content"], expected);
    }
    let pictured = chat_of_message(user(
        json!({"type": "image", "source": {"type": "url", "url": "https://e.org/a"}}),
    ));
    assert_eq!(pictured["messages"][0]["content"][1]["image_url"]["url"], "https://e.org/a");
    for (block, word) in [
        (json!({"type": "document", "source": {"type": "base64", "data": "x"}}), "document"),
        (json!({"type": "document", "source": {"type": "file", "file_id": "f"}}), "document"),
        (json!({"type": "container_upload", "file_id": "f"}), "container_upload"),
        (json!({"type": "hologram"}), "hologram"),
        (json!({"type": "image", "source": {"type": "pigeon"}}), "image"),
        (json!({"type": "image"}), "image"),
        (json!({"type": "tool_use", "id": "a", "name": "f", "input": {}}), "tool_use"),
    ] {
        refuses_message(user(block), word);
    }
    let assistant = |block: Value| json!({"messages": [{"role": "assistant", "content": [block]}]});
    for kind in ["server_tool_use", "mcp_tool_use", "web_search_tool_result", "image"] {
        refuses_message(assistant(json!({ "type": kind })), kind);
    }
}

#[test]
fn tools_become_functions() {
    let schema = json!({"type": "object", "$schema": "x"});
    let chat = chat_of_message(json!({"tools": [
        {"name": "f", "description": "d", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "name": "g", "input_schema": schema, "strict": true, "defer_loading": true},
    ], "tool_choice": {"type": "any", "disable_parallel_tool_use": true}}));
    assert_eq!(
        chat["tools"],
        json!([
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}},
            {"type": "function", "function": {"name": "g", "parameters": schema, "strict": true}},
        ])
    );
    assert_eq!(
        (&chat["tool_choice"], &chat["parallel_tool_calls"]),
        (&json!("required"), &json!(false))
    );
    let chosen = |choice: Value| {
        let tools = json!([{"name": "f", "input_schema": {}}]);
        chat_of_message(json!({"tools": tools, "tool_choice": choice}))["tool_choice"].clone()
    };
    assert_eq!(chosen(json!({"type": "auto"})), "auto");
    assert_eq!(chosen(json!({"type": "none"})), "none");
    let forced = json!({"type": "function", "function": {"name": "f"}});
    assert_eq!(chosen(json!({"type": "tool", "name": "f"})), forced);
    assert_eq!(chat_of_message(json!({"tools": []})).get("tools"), None);
}

#[test]
fn server_tools_are_left_out_among_others_and_refused_alone() {
    let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8});
    let ours = json!({"name": "f", "input_schema": {}});
    let request = to_chat(&message(json!({"tools": [ours, search]}))).unwrap();
    assert_eq!(request.chat.left_out, ["tools.web_search_20250305"]);
    refuses_message(json!({"tools": [search]}), "web_search_20250305");
    let forced = json!({"type": "tool", "name": "web_search"});
    refuses_message(json!({"tools": [ours, search], "tool_choice": forced}), "web_search_20250305");
    refuses_message(json!({"tools": [{"name": "f"}]}), "input_schema");
}

#[test]
fn what_changes_the_answer_is_refused_by_name() {
    for (more, word) in [
        (json!({"container": "c"}), "container"),
        (json!({"mcp_servers": [{"name": "x"}]}), "mcp_servers"),
        (json!({"frobnicate": 1}), "frobnicate"),
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": "many"}), "max_tokens"),
        (json!({"messages": "hi"}), "messages"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "wizard", "content": "x"}]}), "wizard"),
        (json!({"messages": [{"role": "user"}]}), "content"),
        (json!({"stop_sequences": "END"}), "stop_sequences"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (json!({"tool_choice": {"type": "perhaps"}}), "perhaps"),
        (json!({"thinking": {"type": "hyper"}}), "hyper"),
        (json!({"output_config": {"format": {"type": "yaml"}}}), "yaml"),
        (json!({"output_config": {"volume": 1}}), "output_config.volume"),
    ] {
        refuses_message(more, word);
    }
    for (body, code) in [(&b"{"[..], "invalid_json"), (b"", "invalid_json")] {
        assert_eq!(to_chat(body).unwrap_err().kind.code(), Some(code));
    }
    for body in [&b"[]"[..], b"null", b"\"x\"", b"{\"model\":\"m\"}"] {
        assert_eq!(to_chat(body).unwrap_err().status(), 400);
    }
}

#[test]
fn a_count_takes_what_the_prompt_depends_on() {
    let body = message(json!({
        "max_tokens": null,
        "stream": true,
        "temperature": 1,
        "messages": [{"role": "user", "content": [text("look"), image("QUFBQQ==")]}],
        "tools": [{"name": "f", "input_schema": {}}],
    }));
    let request = prompt(&body).unwrap();
    assert_eq!(request.images, 1);
    let chat: Value = serde_json::from_slice(&request.chat.body).unwrap();
    assert_eq!(
        chat,
        json!({
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "look"}]}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
            "add_generation_prompt": true,
        })
    );
}

#[test]
fn tokens_of_thoughts_are_told_where_the_worker_tells_them() {
    let identity = Identity { id: "msg_1".to_owned(), model: None };
    for (details, expected) in [
        (json!({"reasoning_tokens": 4}), json!({"thinking_tokens": 4})),
        (json!({"reasoning_tokens": 0}), Value::Null),
        (Value::Null, Value::Null),
    ] {
        let usage = json!({"prompt_tokens": 5, "completion_tokens": 7,
            "completion_tokens_details": details});
        let choice = json!({"message": {"content": "a"}, "finish_reason": "stop"});
        let answer = json!({"choices": [choice], "usage": usage}).to_string();
        let message = object(answer.as_bytes(), &identity, Told::ButThoughts).unwrap();
        let message: Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["usage"]["output_tokens"], 7);
        assert_eq!(message["usage"]["output_tokens_details"], expected);
    }
}

#[test]
fn a_growing_conversation_begins_with_what_it_was() {
    let mut turns = vec![json!({"role": "user", "content": "q0"})];
    let mut before: Vec<Value> = Vec::new();
    for turn in 0..5 {
        let system = json!([text(&format!("x-anthropic-billing-header: cch={turn};")), text("S.")]);
        let chat = chat_of_message(json!({"system": system, "messages": turns}));
        let messages = chat["messages"].as_array().unwrap().clone();
        assert!(messages.starts_with(&before), "turn {turn}");
        before = messages;
        let call = json!({"type": "tool_use", "id": format!("c{turn}"), "name": "f", "input": {}});
        turns.push(json!({"role": "assistant", "content": [text("a"), call]}));
        turns.push(json!({"role": "user", "content": [result(&format!("c{turn}"), json!("r"))]}));
        turns.push(json!({"role": "user", "content": [text(&format!("q{turn}"))]}));
    }
}
