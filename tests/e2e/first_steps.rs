//! From nothing to a streamed token: `overdraft serve` without configuration.

use serde_json::json;

use crate::harness::{Server, pieces, root};

#[test]
fn a_fresh_machine_streams_a_sensible_answer() {
    let server = Server::serve(&[]);
    let body = json!({
        "model": "overdraft-target",
        "stream": true,
        "temperature": 0,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    });
    let answer = server.ask("POST", "/v1/chat/completions", &body.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.head.contains("text/event-stream"), "{}", answer.head);
    let pieces = pieces(&answer.body);
    assert!(pieces.len() > 2, "it was streamed: {pieces:?}");
    assert!(pieces.concat().contains("Paris"), "{pieces:?}");
}

#[test]
fn both_demo_models_are_listed_and_answer() {
    let server = Server::serve(&[]);
    let listed = server.ask("GET", "/v1/models", "").body;
    for model in ["overdraft-target", "overdraft-draft"] {
        assert!(listed.contains(model), "{listed}");
        let answer = server.chat(&json!({
            "model": model, "temperature": 0, "max_tokens": 20,
            "messages": [{"role": "user", "content": "What is 2 + 3?"}],
        }));
        let content = answer["choices"][0]["message"]["content"].as_str();
        assert!(content.is_some_and(|text| !text.trim().is_empty()), "{answer}");
    }
}

#[test]
fn health_metrics_and_an_access_line_are_there() {
    let server = Server::serve(&[]);
    assert_eq!(server.ask("GET", "/healthz", "").status, 200);
    let answer = server.ask(
        "POST",
        "/v1/chat/completions",
        &json!({"model": "overdraft-draft", "max_tokens": 3,
                "messages": [{"role": "user", "content": "Hello"}]})
        .to_string(),
    );
    assert!(answer.head.contains("x-request-id: req_"), "{}", answer.head);
    assert!(server.metric("overdraft_requests_total") >= 1.0);
    let id = answer.head.split("x-request-id: ").nth(1).and_then(|rest| rest.lines().next());
    let id = id.expect("the header was just seen").trim().to_owned();
    crate::harness::until("the access line is written", || server.log().contains(&id));
}

#[test]
fn a_request_to_an_embedded_model_is_in_the_log_once() {
    let server = Server::serve(&["--log-format", "json"]);
    for _ in 0..4 {
        server.chat(&json!({"model": "overdraft-draft", "max_tokens": 3,
                            "messages": [{"role": "user", "content": "Hello"}]}));
    }
    // Those of the worker inside are told apart by their target.
    for target in ["\"target\":\"access\"", "\"target\":\"access_worker\""] {
        let lines = || {
            let log = server.log();
            let of = |line: &&str| line.contains(target) && line.contains("/chat/completions");
            log.lines().filter(of).count()
        };
        crate::harness::until("each request has its line", || 4 <= lines());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("access.jsonl");
    std::fs::write(&file, server.log()).expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let bill = crate::load::said(&["cost", file, "--price", "1", "--json"]);
    let bill: serde_json::Value = serde_json::from_str(&bill).expect("JSON");
    assert_eq!(bill["requests"], 4, "{bill}");
}

#[test]
fn a_worker_runs_a_file_that_llama_cpp_quantized() {
    let file = root().join("crates/engine/tests/data/foreign-q4_k_m.gguf");
    let server = Server::worker(&["--model", file.to_str().expect("a path in UTF-8")]);
    let ask = json!({"model": "foreign-q4_k_m", "prompt": "Hello", "max_tokens": 8,
                     "temperature": 0, "ignore_eos": true});
    let answer = server.post("/v1/completions", &ask);
    assert_eq!(answer["usage"]["completion_tokens"], 8, "{answer}");
    assert!(server.log().contains("Q4_K_M"), "{}", server.log());
}

#[test]
fn every_endpoint_of_the_reference_is_there() {
    let server = Server::serve(&[]);
    let page = std::fs::read_to_string(root().join("docs/reference/http.md")).expect("the page");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &[_, method @ ("GET" | "POST" | "DELETE"), path, ..] = cells.as_slice() else {
            return None;
        };
        Some((method, path.trim_matches('`').to_owned()))
    });
    let mut asked = 0;
    // A stream of events has no end to wait for; its view is asked without.
    for (method, path) in rows.filter(|(_, path)| path != "/admin/events/{view}") {
        let path = path.replace("{id}", "x").replace("{name}", "x");
        let answer = server.ask(method, &path, if method == "POST" { "{}" } else { "" });
        let nowhere = answer.body.contains(&format!("nothing at `{method} {path}`"));
        // The embedded worker has no embeddings; its own 404 is relayed under its name.
        let is_routed = !nowhere || answer.head.contains("x-overdraft-worker");
        assert!(is_routed && answer.status != 405, "{method} {path}: {}", answer.body);
        asked += 1;
    }
    assert!(asked > 30, "the page's table has {asked} rows only");
}
