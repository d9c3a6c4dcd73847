//! Rows of the mapping from Responses to chat.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{chat_of_response, refuses_response, response, seal, translated};
use crate::dialect::responses::{Course, Identity, Keeping, Request, Writer, object};

/// The chat messages of these items.
#[track_caller]
fn check_items(input: Value, expected: &Value) {
    let chat = chat_of_response(json!({ "input": input }));
    assert_eq!(chat["messages"], *expected);
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": name, "arguments": arguments,
        "status": "completed"})
}

fn called(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn output(id: &str, output: Value) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": output})
}

fn tool(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

#[test]
fn fields_become_those_of_chat() {
    let schema = json!({"type": "object"});
    let sent = json!({
        "instructions": "I.",
        "max_output_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "user": "u",
        "stream": true,
        "reasoning": {"effort": "none", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "out", "schema": schema, "strict": true,
            "description": "d"}, "verbosity": "low"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content", "file_search_call.results"],
        "top_logprobs": 3,
        "truncation": "auto",
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "metadata": {"a": "b"},
        "client_metadata": {"a": "b"},
        "stream_options": {"include_obfuscation": false},
        "tool_choice": "auto",
        "parallel_tool_calls": true,
        "tools": [],
    });
    let expected = json!({
        "model": "m",
        "messages": [{"role": "system", "content": "I."}, user("hi")],
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "user": "u",
        "service_tier": "flex",
        "reasoning_effort": "none",
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "out", "description": "d", "schema": schema, "strict": true}},
        "logprobs": true,
        "top_logprobs": 3,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(chat_of_response(sent), expected);
    assert_eq!(chat_of_response(json!({})), json!({"model": "m", "messages": [user("hi")]}));
    let plain = json!({"text": {"format": {"type": "json_object"}}});
    assert_eq!(chat_of_response(plain)["response_format"], json!({"type": "json_object"}));
}

#[test]
fn texts_come_in_many_spellings() {
    let hi = json!([user("hi")]);
    for input in [
        json!("hi"),
        json!([user("hi")]),
        json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}], "id": null}]),
    ] {
        check_items(input, &hi);
    }
    let answer = |part: Value| {
        json!([user("q"), {"type": "message", "role": "assistant", "id": "msg_1", "phase": "final",
            "status": "completed", "content": [part]}])
    };
    let said = json!([user("q"), {"role": "assistant", "content": "a"}]);
    check_items(
        answer(json!({"type": "output_text", "text": "a", "annotations": [], "logprobs": []})),
        &said,
    );
    check_items(answer(json!({"type": "refusal", "refusal": "a"})), &said);
}

#[test]
fn developers_lead_in_one_system_message_or_remind() {
    let developer = |text: &str| json!({"role": "developer", "content": text});
    let chat = chat_of_response(json!({
        "instructions": "I.",
        "input": [developer("D."), {"role": "system", "content": "S."}, user("a"), developer("late"), user("b")],
    }));
    assert_eq!(
        chat["messages"],
        json!([
            {"role": "system", "content": "I.\n\nD.\n\nS."},
            user("a"),
            user("<system-reminder>\nlate\n</system-reminder>"),
            user("b"),
        ])
    );
}

#[test]
fn calls_of_one_turn_are_one_message_and_results_follow() {
    let two = json!([called("a", "f", r#"{"x": 1}"#), called("b", "g", "{}")]);
    check_items(
        json!([
            user("q"),
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "T"}]},
            {"type": "message", "role": "assistant", "content": "look"},
            call("a", "f", r#"{"x": 1}"#),
            call("b", "g", ""),
            output("a", json!([{"type": "input_image", "image_url": "data:x", "detail": "low"},
                {"type": "input_text", "text": "A"}])),
            output("b", json!("B")),
        ]),
        &json!([
            user("q"),
            {"role": "assistant", "content": "look", "reasoning_content": "T", "reasoning": "T", "tool_calls": two},
            tool("a", "A"),
            tool("b", "B"),
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]},
        ]),
    );
    check_items(
        json!([
            user("q"),
            call("a", "f", "{}"),
            output("a", json!("A")),
            call("b", "g", "{}"),
            output("b", json!("B"))
        ]),
        &json!([
            user("q"),
            {"role": "assistant", "content": null, "tool_calls": [called("a", "f", "{}")]},
            tool("a", "A"),
            {"role": "assistant", "content": null, "tool_calls": [called("b", "g", "{}")]},
            tool("b", "B"),
        ]),
    );
}

#[test]
fn thoughts_go_before_seals_and_seals_before_summaries() {
    let summary = json!([{"type": "summary_text", "text": "S"}]);
    for (more, thought) in [
        (
            json!({"content": [{"type": "reasoning_text", "text": "T"}], "encrypted_content": "sealed:E"}),
            Some("T"),
        ),
        (json!({"encrypted_content": "sealed:E"}), Some("E")),
        (json!({"encrypted_content": "foreign"}), Some("S")),
        (json!({"encrypted_content": "foreign", "summary": []}), None),
    ] {
        let mut item = json!({"type": "reasoning", "id": "rs_1", "summary": summary});
        super::merge(&mut item, more);
        let input = json!([user("q"), item, {"role": "assistant", "content": "a"}]);
        let chat = chat_of_response(json!({ "input": input }));
        assert_eq!(chat["messages"][1].get("reasoning").and_then(Value::as_str), thought);
    }
    let nothing = json!([user("q"), {"type": "reasoning", "summary": []}, user("r")]);
    check_items(nothing, &json!([user("q"), user("r")]));
}

#[test]
fn tools_are_nested_and_namespaces_flattened() {
    let function = |name: &str| {
        json!({"type": "function", "name": name, "description": "d",
        "parameters": {"type": "object"}, "strict": true})
    };
    let custom = json!({"type": "custom", "name": "apply_patch", "description": "Edits.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}});
    let tools = json!([function("f"), custom, {"type": "namespace", "name": "mcp", "tools": [function("f")]},
        {"type": "web_search", "external_web_access": true}]);
    let body = response(json!({ "tools": tools }));
    let request = translated(&body).unwrap();
    assert_eq!(request.chat.left_out, ["tools.web_search"]);
    let chat: Value = serde_json::from_slice(&request.chat.body).unwrap();
    let nested = |name: &str| {
        json!({"type": "function", "function": {"name": name, "description": "d",
        "parameters": {"type": "object"}, "strict": true}})
    };
    assert_eq!((&chat["tools"][0], &chat["tools"][2]), (&nested("f"), &nested("mcp__f")));
    let patch = &chat["tools"][1]["function"];
    assert!(patch["description"].as_str().unwrap().contains("start: x"));
    assert_eq!(patch["parameters"]["required"], json!(["input"]));
}

#[test]
fn choices_among_tools_are_carried() {
    let tools = json!([{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]);
    let chosen = |choice: Value| chat_of_response(json!({"tools": tools, "tool_choice": choice}));
    for word in ["auto", "none", "required"] {
        assert_eq!(chosen(json!(word))["tool_choice"], word);
    }
    let forced = json!({"type": "function", "function": {"name": "g"}});
    assert_eq!(chosen(json!({"type": "function", "name": "g"}))["tool_choice"], forced);
    let some = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]});
    let chat = chosen(some);
    assert_eq!(
        (&chat["tool_choice"], chat["tools"].as_array().unwrap().len()),
        (&json!("required"), 1)
    );
    let allowed = |tools: Value| json!({"type": "allowed_tools", "mode": "auto", "tools": tools});
    for none in
        [json!([]), json!([{"type": "function", "name": "h"}]), json!([{"type": "web_search"}])]
    {
        refuses_response(
            json!({"tools": tools, "tool_choice": allowed(none)}),
            "tool_choice.tools",
        );
    }
    let mixed = allowed(json!([{"type": "web_search"}, {"type": "function", "name": "f"}]));
    let body = response(json!({"tools": tools, "tool_choice": mixed}));
    assert_eq!(translated(&body).unwrap().chat.left_out, ["tool_choice.tools[0]"]);
    let hosted = json!({"type": "web_search"});
    refuses_response(json!({"tools": tools, "tool_choice": hosted}), "web_search");
    refuses_response(json!({"tools": [{"type": "web_search"}]}), "web_search");
    refuses_response(json!({"tools": [{"type": "hologram"}]}), "hologram");
}

#[test]
fn custom_calls_go_there_and_back_as_raw_text() {
    let tools = json!([{"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "f"}]}]);
    let input = json!([user("q"),
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "a\n\"b\""},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        {"type": "function_call", "call_id": "d", "namespace": "mcp", "name": "f", "arguments": "{}"},
        output("d", json!("ok"))]);
    let body = response(json!({"tools": tools, "input": input}));
    let request = translated(&body).unwrap();
    let chat: Value = serde_json::from_slice(&request.chat.body).unwrap();
    let arguments = r#"{"input":"a\n\"b\""}"#;
    assert_eq!(chat["messages"][1]["tool_calls"], json!([called("c", "apply_patch", arguments)]));
    assert_eq!(chat["messages"][3]["tool_calls"], json!([called("d", "mcp__f", "{}")]));
    let identity = Identity { id: "resp_1".to_owned(), created_at: 1, model: None };
    let writer = Writer::new(identity, request, seal());
    let calls = json!([called("e", "apply_patch", arguments), called("g", "mcp__f", "{}")]);
    let answer = json!({"model": "w", "choices": [{"message": {"content": null, "tool_calls": calls},
        "finish_reason": "tool_calls"}]});
    let object: Value =
        serde_json::from_slice(&object(answer.to_string().as_bytes(), writer).unwrap()).unwrap();
    let (custom, function) = (&object["output"][0], &object["output"][1]);
    assert_eq!(
        (&custom["type"], &custom["input"]),
        (&json!("custom_tool_call"), &json!("a\n\"b\""))
    );
    assert_eq!((&function["name"], &function["namespace"]), (&json!("f"), &json!("mcp")));
    assert_eq!(object["model"], "w");
}

#[test]
fn an_object_repeats_what_was_asked_of_its_text() {
    let plain = json!({"type": "text"});
    let object = json!({"type": "json_object"});
    for (sent, told) in [
        (json!({"verbosity": "low"}), json!({"format": plain, "verbosity": "low"})),
        (json!({"format": null, "verbosity": "low"}), json!({"format": plain, "verbosity": "low"})),
        (json!({}), json!({ "format": plain })),
        (json!({"format": object, "verbosity": 1}), json!({"format": object, "verbosity": 1})),
        (Value::Null, json!({ "format": plain })),
    ] {
        let request = translated(&response(json!({ "text": sent }))).unwrap();
        let identity = Identity { id: "resp_1".to_owned(), created_at: 1, model: None };
        let begun = Writer::new(identity, request, seal()).under_way();
        let begun: Value = serde_json::from_slice(&begun).unwrap();
        assert_eq!(begun["text"], told);
    }
}

#[test]
fn token_counts_have_every_member_that_clients_require() {
    let identity = Identity { id: "resp_1".to_owned(), created_at: 1, model: None };
    let writer = Writer::new(identity, translated(&response(json!({}))).unwrap(), seal());
    let answer = json!({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    let object = object(answer.to_string().as_bytes(), writer).unwrap();
    let object: Value = serde_json::from_slice(&object).unwrap();
    assert_eq!(
        object["usage"],
        json!({
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 8,
        })
    );
}

#[test]
fn what_changes_the_answer_is_refused_by_name() {
    let part = |part: Value| json!({"input": [{"role": "user", "content": [part]}]});
    for (more, word) in [
        (json!({"input": null}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": [5]}), "input[0]"),
        (json!({"input": [{"role": "wizard", "content": "x"}]}), "wizard"),
        (json!({"frobnicate": 1}), "frobnicate"),
        (json!({"conversation": "c"}), "conversation"),
        (json!({"prompt": {"id": "p"}}), "prompt"),
        (json!({"background": true, "store": false}), "store"),
        (json!({"include": ["hologram.rays"]}), "hologram.rays"),
        (json!({"text": {"format": {"type": "runes"}}}), "runes"),
        (json!({"max_output_tokens": 0}), "max_output_tokens"),
        (json!({"metadata": "x"}), "metadata"),
        (part(json!({"type": "input_file", "file_id": "f"})), "input_file"),
        (part(json!({"type": "input_image", "file_id": "f"})), "input_image"),
        (part(json!({"type": "input_hologram"})), "input_hologram"),
    ] {
        refuses_response(more, word);
    }
    for kind in
        ["hologram", "item_reference", "computer_call_output", "web_search_call", "mcp_list_tools"]
    {
        refuses_response(json!({"input": [user("q"), {"type": kind, "id": "x"}]}), kind);
    }
    refuses_response(json!({"input": [user("q"), {"id": "x"}]}), "item_reference");
}

#[test]
fn a_request_tells_what_is_kept_of_it() {
    let body = response(json!({"previous_response_id": "resp_0", "background": true}));
    let request = Request::parse(&body).unwrap();
    assert_eq!((request.keeping, request.course), (Keeping::Stored, Course::Background));
    assert_eq!(request.previous.as_deref(), Some("resp_0"));
    let body = response(json!({"store": false, "input": [user("q"), call("a", "f", "{}")]}));
    let request = Request::parse(&body).unwrap();
    assert_eq!((request.keeping, request.course), (Keeping::Forgotten, Course::Foreground));
    let items = request.input_items("seed");
    let ids: Vec<Value> =
        items.iter().map(|item| serde_json::from_str(item.get()).unwrap()).collect();
    assert!(ids[0]["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(ids[1]["id"], "fc_1");
}

#[test]
fn kept_items_have_what_clients_take_for_granted() {
    let turns = json!([
        user("q"),
        {"type": null, "id": null, "role": "assistant", "content": "a", "phase": "commentary"},
        call("c", "f", "{}"),
        output("c", json!("r")),
        {"role": "developer", "content": [{"type": "input_text", "text": "d"}], "status": "incomplete"},
        {"type": "reasoning", "summary": [], "id": "rs_1"},
    ]);
    let body = response(json!({ "input": turns }));
    let request = Request::parse(&body).unwrap();
    let raw = request.input_items("seed");
    let items: Vec<Value> =
        raw.iter().map(|item| serde_json::from_str(item.get()).unwrap()).collect();
    let said = json!([{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]);
    assert_eq!(items[0]["content"], json!([{"type": "input_text", "text": "q"}]));
    assert_eq!((&items[1]["content"], &items[1]["phase"]), (&said, &json!("commentary")));
    let kinds: Vec<&Value> = items.iter().map(|item| &item["type"]).collect();
    let expected =
        ["message", "message", "function_call", "function_call_output", "message", "reasoning"];
    assert_eq!(kinds, expected);
    let stands: Vec<&Value> = items.iter().map(|item| &item["status"]).collect();
    let done = json!("completed");
    assert_eq!(stands, [&done, &done, &done, &done, &json!("incomplete"), &Value::Null]);
    assert!(items.iter().all(|item| item["id"].is_string()), "{items:?}");
    assert_eq!(items[2], call("c", "f", "{}"));
    // To a worker they say what they said before.
    let follows = response(json!({"input": [user("next")]}));
    let chat_after = |history: &[Box<RawValue>]| -> Value {
        let request = Request::parse(&follows).unwrap();
        serde_json::from_slice(&request.translate(history, &super::OpenSeal).unwrap().chat.body)
            .unwrap()
    };
    let sent: Vec<Box<RawValue>> = turns.as_array().unwrap().iter().map(as_raw).collect();
    assert_eq!(chat_after(&raw), chat_after(&sent));
}

fn as_raw(item: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(item).unwrap()
}

#[test]
fn history_comes_before_the_input_and_instructions_before_both() {
    let body = response(json!({"instructions": "I2."}));
    let history: Vec<_> = [
        user("q1"),
        json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "a1"}]}),
    ]
    .iter()
    .map(as_raw)
    .collect();
    let translated = Request::parse(&body).unwrap().translate(&history, &super::OpenSeal).unwrap();
    let chat: Value = serde_json::from_slice(&translated.chat.body).unwrap();
    assert_eq!(
        chat["messages"],
        json!([
            {"role": "system", "content": "I2."},
            user("q1"),
            {"role": "assistant", "content": "a1"},
            user("hi"),
        ])
    );
}
