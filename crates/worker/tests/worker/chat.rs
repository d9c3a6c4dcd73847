//! `/v1/chat/completions` as its clients see it, whole and streamed.

use serde_json::{Value, json};

use crate::support::{Running, user};

/// The answer without what differs from run to run.
fn settled(mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        let id = fields.shift_remove("id").unwrap_or_default();
        assert!(id.as_str().is_some_and(|id| id.starts_with("chatcmpl-")), "{id}");
        assert!(fields.shift_remove("created").is_some_and(|created| created.is_u64()));
    }
    answer
}

#[tokio::test]
async fn a_whole_answer_has_every_field_clients_read() {
    let worker = Running::echo().await;
    let reply = worker.chat(&json!({ "model": "echo", "messages": user("Hi!") })).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(reply.header("x-request-id").starts_with("req_"));
    let prompt = "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n";
    let prompt = prompt.replace("<|im_start|>", "s").replace("<|im_end|>", "e").len();
    assert_eq!(
        settled(reply.json()),
        json!({
            "object": "chat.completion",
            "model": "echo",
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": "Hi!", "refusal": null },
                "logprobs": null,
                "finish_reason": "stop",
                "stop_reason": null,
            }],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": 4,
                "total_tokens": prompt + 4,
                "prompt_tokens_details": { "cached_tokens": 0 },
            },
        })
    );
}

#[tokio::test]
async fn a_stream_opens_with_the_role_and_ends_with_the_reason_usage_and_done() {
    let worker = Running::echo().await;
    let request = json!({
        "model": "parrot", "messages": user("abc"), "stream": true,
        "stream_options": { "include_usage": true },
    });
    let reply = worker.chat(&request).await;
    assert!(reply.header("content-type").starts_with("text/event-stream"));
    assert_eq!(reply.header("cache-control"), "no-cache");
    assert_eq!(reply.header("x-accel-buffering"), "no");
    assert!(reply.whole);
    let mut events = reply.events();
    assert_eq!(events.pop(), Some(json!("[DONE]")));
    let ids: std::collections::BTreeSet<_> =
        events.iter().map(|event| event["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "one id for all chunks");
    let chunk = |choice: Value| json!({ "object": "chat.completion.chunk", "model": "echo", "choices": [choice] });
    let text = |text: &str| {
        let delta = json!({ "content": text });
        chunk(json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }))
    };
    let opening = json!({ "role": "assistant", "content": "" });
    let mut usage = events.pop().unwrap();
    assert_eq!(usage["usage"]["completion_tokens"], 4);
    usage.as_object_mut().unwrap().shift_remove("usage");
    assert_eq!(
        settled(usage),
        json!({ "object": "chat.completion.chunk", "model": "echo", "choices": [] })
    );
    let told: Vec<Value> = events.into_iter().map(settled).collect();
    assert_eq!(
        told,
        [
            chunk(json!({
                "index": 0, "delta": opening, "logprobs": null, "finish_reason": null
            })),
            text("a"),
            text("b"),
            text("c"),
            chunk(json!({ "index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop" })),
        ]
    );
}

#[tokio::test]
async fn usage_is_told_in_every_chunk_only_if_asked_for() {
    let worker = Running::echo().await;
    let mut request = json!({ "messages": user("abc"), "stream": true });
    let events = worker.chat(&request).await.events();
    assert!(events.iter().all(|event| event["usage"].is_null()));
    request["stream_options"] = json!({ "include_usage": true, "continuous_usage_stats": true });
    let events = worker.chat(&request).await.events();
    let counts: Vec<_> =
        events.iter().filter_map(|event| event["usage"]["completion_tokens"].as_u64()).collect();
    assert_eq!(counts.len(), events.len() - 1, "all but [DONE]");
    assert!(counts.is_sorted() && counts.last() == Some(&4), "{counts:?}");
}

#[tokio::test]
async fn n_choices_come_interleaved_and_add_up() {
    let worker = Running::slow_echo().await;
    let mut request = json!({ "messages": user("hello"), "n": 2, "seed": 3 });
    let whole = worker.chat(&request).await.json();
    let texts: Vec<_> = whole["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| (choice["index"].clone(), choice["message"]["content"].clone()))
        .collect();
    assert_eq!(texts, [(json!(0), json!("hello")), (json!(1), json!("hello"))]);
    assert_eq!(whole["usage"]["completion_tokens"], 12);
    request["stream"] = json!(true);
    let events = worker.chat(&request).await.events();
    let order: Vec<_> =
        events.iter().filter_map(|event| event["choices"][0]["index"].as_u64()).collect();
    assert!(!order.is_sorted(), "interleaved: {order:?}");
    assert_eq!(order[0], 0, "helpers of SDKs append the others to it");
    for index in 0..2 {
        let text: String = events
            .iter()
            .filter(|event| event["choices"][0]["index"] == index)
            .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(text, "hello");
    }
    assert_eq!(events.iter().filter(|event| *event == "[DONE]").count(), 1);
}

#[tokio::test]
async fn stops_and_limits_end_an_answer_and_say_which() {
    let worker = Running::echo().await;
    let base = json!({ "messages": user("one two three") });
    let ask = async |extra: Value| {
        let mut request = base.clone();
        request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = worker.chat(&request).await.json();
        let choice = &answer["choices"][0];
        (
            choice["message"]["content"].clone(),
            choice["finish_reason"].clone(),
            choice["stop_reason"].clone(),
        )
    };
    let text = |text: &str| json!(text);
    assert_eq!(ask(json!({ "stop": [" two"] })).await, (text("one"), text("stop"), text(" two")));
    assert_eq!(
        ask(json!({ "stop": " two", "include_stop_str_in_output": true })).await,
        (text("one two"), text("stop"), text(" two"))
    );
    assert_eq!(ask(json!({ "stop_token_ids": [116] })).await.1, text("stop"),);
    assert_eq!(ask(json!({ "stop_token_ids": [116] })).await.2, json!(116));
    assert_eq!(ask(json!({ "max_tokens": 5 })).await, (text("one t"), text("length"), Value::Null));
    let (said, reason, _) = ask(json!({ "ignore_eos": true, "max_completion_tokens": 20 })).await;
    assert_eq!((said.as_str().unwrap().len() > 13, reason), (true, text("length")));
}

#[tokio::test]
async fn log_probabilities_tell_tokens_bytes_and_rivals() {
    let worker = Running::echo().await;
    let mut request = json!({
        "messages": user("é"), "logprobs": true, "top_logprobs": 2, "temperature": 0
    });
    let answer = worker.chat(&request).await.json();
    let content = answer["choices"][0]["logprobs"]["content"].clone();
    let tokens = content.as_array().unwrap();
    assert_eq!(tokens.len(), 3, "two bytes and the end");
    assert_eq!(tokens[0]["bytes"], json!([0xc3]));
    for token in tokens {
        assert!(token["logprob"].as_f64().unwrap() > -0.1, "{token}");
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
    }
    assert_eq!(answer["choices"][0]["message"]["content"], "é");
    request["stream"] = json!(true);
    let streamed: Vec<Value> = worker
        .chat(&request)
        .await
        .events()
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(Value::Array(streamed), content, "the same, token by token");
    request["return_tokens_as_token_ids"] = json!(true);
    let answer = worker.chat(&request).await.events();
    assert!(
        answer.iter().any(|event| {
            event["choices"][0]["logprobs"]["content"][0]["token"] == "token_id:195"
        })
    );
}

#[tokio::test]
async fn prompt_log_probabilities_and_token_ids_come_when_asked_for() {
    let worker = Running::echo().await;
    let request = json!({
        "messages": user("ab"), "prompt_logprobs": 1, "return_token_ids": true
    });
    let answer = worker.chat(&request).await.json();
    let prompt = answer["prompt_token_ids"].as_array().unwrap();
    let told = answer["prompt_logprobs"].as_array().unwrap();
    assert_eq!(prompt.len(), told.len());
    assert!(told[0].is_null());
    for (token, position) in prompt.iter().zip(told).skip(1) {
        let entry = &position[token.to_string()];
        assert!(entry["logprob"].is_f64() && entry["rank"].is_u64(), "{position}");
        assert!(entry["decoded_token"].is_string());
    }
    let tokens = answer["choices"][0]["token_ids"].as_array().unwrap();
    assert_eq!(tokens[..2], [json!(97), json!(98)]);
    let request = json!({ "messages": user("ab"), "stream": true, "return_token_ids": true });
    let events = worker.chat(&request).await.events();
    assert_eq!(events[0]["prompt_token_ids"].as_array(), Some(prompt));
    let streamed: Vec<Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["token_ids"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(&streamed, tokens);
}

#[tokio::test]
async fn a_final_message_can_be_continued_and_echoed() {
    let worker = Running::echo().await;
    let request = json!({
        "messages": [
            { "role": "user", "content": "hello" },
            { "role": "assistant", "content": "hel" },
        ],
        "continue_final_message": true, "add_generation_prompt": false, "echo": true,
    });
    let answer = worker.chat(&request).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "hello");
    assert_eq!(answer["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_by_name() {
    let worker = Running::echo().await;
    let cases = [
        (json!({ "model": "gpt-9" }), 404, "model", "model_not_found"),
        (json!({ "temperature": "hot" }), 400, "temperature", "-"),
        (json!({ "max_tokens": 0 }), 400, "max_tokens", "-"),
        (json!({ "max_tokens": 100_000 }), 400, "messages", "context_length_exceeded"),
        (json!({ "messages": user(&"x".repeat(600)) }), 400, "messages", "context_length_exceeded"),
        (json!({ "messages": [] }), 400, "messages", "-"),
        (json!({ "messages": "hi" }), 400, "messages", "-"),
        (json!({ "response_format": { "type": "json_object" } }), 400, "response_format", "-"),
        (json!({ "tool_choice": "required" }), 400, "tool_choice", "-"),
        (json!({ "functions": [{ "name": "f" }] }), 400, "functions", "-"),
        (json!({ "function_call": { "name": "f" } }), 400, "function_call", "-"),
        (json!({ "web_search_options": {} }), 400, "web_search_options", "-"),
        (json!({ "audio": { "voice": "v", "format": "mp3" } }), 400, "audio", "-"),
        (json!({ "guided_json": { "type": "object" } }), 400, "guided_json", "-"),
        (json!({ "structured_outputs": { "choice": ["a"] } }), 400, "structured_outputs", "-"),
        (json!({ "prompt_logprobs": 1, "stream": true }), 400, "prompt_logprobs", "-"),
        (json!({ "best_of": 3 }), 400, "best_of", "-"),
        (json!({ "logit_bias": { "99999": 1 } }), 400, "logit_bias", "-"),
        (
            json!({ "continue_final_message": true, "add_generation_prompt": true }),
            400,
            "continue_final_message",
            "-",
        ),
    ];
    for (extra, status, param, code) in cases {
        let mut request = json!({ "messages": user("hi") });
        request.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let reply = worker.chat(&request).await;
        assert_eq!(reply.fault(), (status, param.to_owned(), code.to_owned()), "{extra}");
    }
}

#[tokio::test]
async fn tools_and_plain_formats_are_no_reason_to_refuse() {
    let worker = Running::echo().await;
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": {} } });
    let request = json!({
        "messages": user("hi"), "tools": [tool], "tool_choice": "auto",
        "response_format": { "type": "text" }, "unknown_field": { "deep": [1] }, "user": "u",
        "functions": [], "function_call": "auto", "audio": null,
    });
    assert_eq!(worker.chat(&request).await.json()["choices"][0]["message"]["content"], "hi");
}
