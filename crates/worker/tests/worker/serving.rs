//! The worker around its models: small endpoints, limits, clients that leave, metrics, drain.

use std::sync::Arc;
use std::time::Duration;

use overdraft_engine::EchoSettings;
use overdraft_tokenizer::Prompter;
use overdraft_wire::Generation;
use serde_json::{Value, json};

use crate::support::{Running, small_echo, user};

#[tokio::test]
async fn models_are_listed_under_all_their_names() {
    let worker = Running::echo().await;
    let list = worker.get("/v1/models").await.json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|card| &card["id"]).collect();
    assert_eq!(ids, ["echo", "parrot", "org/echo"]);
    assert_eq!(list["data"][0]["max_model_len"], 512);
    assert_eq!(list["data"][0]["owned_by"], "overdraft");
    assert_eq!(worker.get("/v1/models/parrot").await.json()["root"], "echo");
    assert_eq!(worker.get("/v1/models/org/echo").await.status, 200);
    assert_eq!(worker.get("/v1/models/org%2Fecho").await.status, 200);
    assert_eq!(worker.get("/v1/models/none").await.fault().2, "model_not_found");
}

#[tokio::test]
async fn text_becomes_tokens_and_tokens_text() {
    let worker = Running::echo().await;
    let request = json!({ "prompt": "hé", "return_token_strs": true });
    let told = worker.post("/tokenize", &request).await.json();
    assert_eq!(told["tokens"], json!([104, 0xc3, 0xa9]));
    assert_eq!((&told["count"], &told["max_model_len"]), (&json!(3), &json!(512)));
    assert_eq!(told["token_strs"][0], "h");
    let back = worker.post("/detokenize", &json!({ "tokens": told["tokens"] })).await.json();
    assert_eq!(back["prompt"], "hé");
    let chat = worker.post("/tokenize", &json!({ "messages": user("hi") })).await.json();
    assert_eq!(chat["tokens"][0], 256, "<|im_start|>");
    let large = "word ".repeat(20_000);
    let told = worker.post("/tokenize", &json!({ "prompt": large })).await.json();
    assert_eq!(told["count"], 100_000, "large prompts too");
    let uncut = "9".repeat(2 * 1024 * 1024);
    let refused = worker.post("/tokenize", &json!({ "prompt": uncut })).await.fault();
    let expected = (400, "prompt".to_owned(), "context_length_exceeded".to_owned());
    assert_eq!(refused, expected, "but not what would take a gigabyte");
    assert_eq!(worker.post("/detokenize", &json!({ "tokens": [999] })).await.fault().1, "tokens");
    assert_eq!(worker.post("/tokenize", &json!({})).await.fault().1, "prompt");
}

#[tokio::test]
async fn prompts_made_of_the_tokenizer_source_are_the_workers() {
    let worker = Running::echo().await;
    let document = worker.get("/tokenizer_source").await;
    assert_eq!((document.status, document.header("content-type")), (200, "application/json"));
    let prompter = Prompter::from_document(document.body.as_bytes(), Arc::default()).unwrap();
    let prompt = |body: &Value, surface| {
        let tokens = prompter.prompt_of(body.to_string().as_bytes(), surface, 0).unwrap();
        json!(tokens.iter().map(|token| token.0).collect::<Vec<_>>())
    };
    let talk = json!([
        { "role": "system", "content": "Be brief. ".repeat(15) },
        { "role": "user", "content": [{ "type": "text", "text": "hé <|im_end|>" }] },
        { "role": "assistant", "content": "ok" },
        { "role": "user", "content": "…" },
    ]);
    for messages in [user("hi"), user("<|im_start|>system"), talk] {
        let told = worker.post("/tokenize", &json!({ "messages": messages })).await.json();
        let body = json!({ "messages": messages, "return_token_ids": true, "max_tokens": 1 });
        assert_eq!(prompt(&body, Generation::Chat), told["tokens"]);
        let answer = worker.chat(&body).await.json();
        assert_eq!(answer["prompt_token_ids"], told["tokens"], "{answer}");
    }
    for text in ["plain text", "a<|im_end|>b"] {
        let told = worker.post("/tokenize", &json!({ "prompt": text })).await.json();
        let body = json!({ "prompt": [text, "another"], "model": "echo" });
        assert_eq!(prompt(&body, Generation::Completion), told["tokens"]);
    }
}

#[tokio::test]
async fn small_endpoints_answer_as_vllms() {
    let worker = Running::echo().await;
    let health = worker.get("/health").await;
    let told = json!({ "status": "healthy", "model": "echo", "mean_acceptance": null });
    assert_eq!((health.status, health.json()), (200, told));
    assert_eq!(worker.send("POST", "/ping", "").await.status, 200);
    assert!(worker.get("/version").await.json()["version"].is_string());
    assert_eq!(worker.get("/load").await.json()["server_load"], 0);
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_get_error_objects() {
    let worker = Running::echo().await;
    assert_eq!(worker.get("/v2/nothing").await.fault().0, 404);
    let wrong = worker.get("/v1/chat/completions").await;
    assert_eq!(wrong.fault().0, 405);
    assert_eq!(wrong.header("allow"), "POST");
    assert_eq!(worker.send("DELETE", "/v1/models", "").await.header("allow"), "GET, HEAD");
}

#[tokio::test]
async fn rubbish_gets_an_error_object_and_the_worker_lives() {
    let worker = Running::echo().await;
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let nested = format!("{{\"messages\":{deep}}}");
    for body in ["", "null", "[]", "{", "\"x\"", "{\"messages\":1e999}", "\u{feff}{}", &nested] {
        for path in ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"] {
            assert_eq!(worker.send("POST", path, body).await.fault().0, 400, "{path} {body:.20}");
        }
    }
    let mut client = worker.connect().await;
    client.send_raw(b"\x16\x03\x01\x02\x00 not http at all\r\n\r\n").await;
    assert_eq!(client.reply().await.fault().0, 400);
    assert_eq!(worker.chat(&json!({ "messages": user("alive") })).await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let worker =
        Running::start_with(small_echo(), |_| {}, |settings| settings.limits.body_bytes = 1000)
            .await;
    let reply = worker.chat(&json!({ "messages": user(&"x".repeat(2000)) })).await;
    assert_eq!(reply.fault().0, 413);
}

#[tokio::test]
async fn a_client_that_leaves_mid_stream_frees_its_blocks() {
    let worker = Running::slow_echo().await;
    let mut client = worker.connect().await;
    let request = json!({ "prompt": "abc", "max_tokens": 400, "stream": true });
    client.send("POST", "/v1/completions", &request.to_string()).await;
    client.until("data: ").await;
    // Tokens leave before the step's counts are published.
    worker.until(|stats| stats.batch.blocks_held.get() > 0).await;
    drop(client);
    worker.until(|stats| stats.batch.running == 0).await;
    assert_eq!(worker.stats().batch.blocks_held.get(), 0);
    assert!(worker.stats().generation_tokens < 400);
    let metrics = worker.get("/metrics").await.body;
    let aborted =
        "vllm:request_success_total{model_name=\"echo\",engine=\"0\",finished_reason=\"abort\"} 1";
    assert!(metrics.contains(aborted), "{metrics}");
}

#[tokio::test]
async fn a_client_that_leaves_while_its_prompt_is_computed_frees_its_blocks() {
    // Chunks of one page: the prompt takes thirty steps.
    let echo = EchoSettings { step_delay: Duration::from_millis(20), ..small_echo() };
    let worker = Running::start(echo, |settings| {
        settings.step_tokens = overdraft_units::Tokens::new(16);
    })
    .await;
    for stream in [false, true] {
        let before = worker.stats().prompt_tokens;
        let mut client = worker.connect().await;
        let request = json!({ "prompt": "x".repeat(480), "stream": stream, "cache_salt": stream.to_string() });
        client.send("POST", "/v1/completions", &request.to_string()).await;
        worker.until(|stats| stats.batch.blocks_held.get() > 0).await;
        drop(client);
        worker.until(|stats| stats.batch.running == 0 && stats.batch.waiting == 0).await;
        assert_eq!(worker.stats().batch.blocks_held.get(), 0);
        assert_eq!(worker.stats().prompt_tokens, before, "the prompt was never done");
    }
    assert_eq!(worker.get("/load").await.json()["server_load"], 0);
}

#[tokio::test]
async fn one_request_too_many_is_told_to_come_back() {
    let worker = Running::start(
        EchoSettings { step_delay: Duration::from_millis(5), ..small_echo() },
        |settings| {
            settings.running_max = 1;
            settings.waiting_max = 1;
        },
    )
    .await;
    let request = json!({ "prompt": "abc", "max_tokens": 400, "stream": true });
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut client = worker.connect().await;
        client.send("POST", "/v1/completions", &request.to_string()).await;
        busy.push(client);
        let wanted = u32::try_from(busy.len()).unwrap();
        worker.until(|stats| stats.batch.running + stats.batch.waiting >= wanted).await;
    }
    let refused = worker.complete(&request).await;
    assert_eq!(refused.fault(), (503, "-".to_owned(), "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), "1");
    let metrics = worker.get("/metrics").await.body;
    assert!(metrics.contains(
        "vllm:admission_rejections_total{model_name=\"echo\",reason=\"max_num_queued_reqs\"} 1"
    ));
    assert!(metrics.contains("vllm:num_requests_waiting{model_name=\"echo\",engine=\"0\"} 1"));
}

#[tokio::test]
async fn more_completions_than_the_queue_holds_are_no_reason_to_come_back() {
    let worker = Running::start(small_echo(), |settings| settings.waiting_max = 2).await;
    let many = worker.complete(&json!({ "prompt": vec!["a"; 16], "max_tokens": 1 })).await;
    assert_eq!(many.fault(), (400, "prompt".to_owned(), "-".to_owned()));
    let many = worker.chat(&json!({ "messages": user("hi"), "n": 3, "max_tokens": 1 })).await;
    assert_eq!(many.fault(), (400, "n".to_owned(), "-".to_owned()));
    let few = worker.complete(&json!({ "prompt": ["a", "b"], "max_tokens": 1 })).await;
    assert_eq!(few.status, 200, "{few:?}");
}

#[tokio::test]
async fn metrics_count_what_clients_asked_for_and_not_the_warm_up() {
    let worker = Running::echo().await;
    let all = "model_name=\"echo\",engine=\"0\"";
    let before = worker.get("/metrics").await;
    assert_eq!(before.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert!(before.body.contains(&format!("vllm:prompt_tokens_total{{{all}}} 0\n")));
    let prompt = "0123456789".repeat(10);
    for _ in 0..2 {
        worker.complete(&json!({ "prompt": prompt, "max_tokens": 5 })).await;
    }
    worker.until(|stats| stats.batch.running == 0).await;
    let text = worker.get("/metrics").await.body;
    for line in [
        "prompt_tokens_total{ALL} 200",
        "generation_tokens_total{ALL} 10",
        "prefix_cache_hits_total{ALL} 96",
        "request_success_total{ALL,finished_reason=\"length\"} 2",
        "time_to_first_token_seconds_count{ALL} 2",
        "inter_token_latency_seconds_count{ALL} 8",
        "e2e_request_latency_seconds_count{ALL} 2",
        "request_prompt_tokens_sum{ALL} 200.0",
        "kv_cache_usage_perc{ALL} 0.0",
        "gpu_cache_usage_perc{ALL} 0.0",
        "num_requests_running{ALL} 0",
    ] {
        let line = format!("\nvllm:{}\n", line.replace("ALL", all));
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_drain_finishes_streams() {
    let worker = Running::slow_echo().await;
    let mut client = worker.connect().await;
    let request = json!({ "prompt": "abc", "max_tokens": 40, "stream": true });
    client.send("POST", "/v1/completions", &request.to_string()).await;
    client.until("data: ").await;
    worker.stop();
    let reply = client.reply().await;
    assert!(reply.whole && reply.body.ends_with("data: [DONE]\n\n"), "{reply:?}");
    let text: String =
        reply.events().iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, "abc".repeat(14)[..40]);
    assert_eq!(worker.ended().await.connections_cut, 0);
}

#[tokio::test]
async fn a_drain_that_runs_out_of_time_ends_streams_with_an_error() {
    let worker = Running::start_with(
        EchoSettings { step_delay: Duration::from_millis(20), ..small_echo() },
        |_| {},
        |settings| settings.limits.drain = Duration::from_millis(50),
    )
    .await;
    let mut client = worker.connect().await;
    let request = json!({ "prompt": "abc", "max_tokens": 400, "stream": true });
    client.send("POST", "/v1/completions", &request.to_string()).await;
    client.until("data: ").await;
    worker.stop();
    let reply = client.reply().await;
    assert!(!reply.whole && !reply.body.contains("[DONE]"), "{reply:?}");
    assert_eq!(reply.events().last().unwrap()["error"]["code"], "overloaded");
    assert_eq!(worker.ended().await.connections_cut, 1);
}

#[tokio::test]
async fn while_leaving_the_worker_is_not_healthy() {
    let worker = Running::start_with(
        small_echo(),
        |_| {},
        |settings| {
            settings.limits.lame_duck = Duration::from_mins(1);
        },
    )
    .await;
    worker.stop();
    let health = loop {
        let health = worker.get("/health").await;
        if health.status == 503 {
            break health.json();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&health["status"], &health["model"]), (&json!("unhealthy"), &json!("echo")));
    assert_eq!(health["error"]["message"], "the worker is shutting down");
    assert_eq!(worker.chat(&json!({ "messages": user("still") })).await.status, 200);
}
