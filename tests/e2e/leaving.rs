//! Clients that go away, servers that are told to, and bytes that mean nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Server, root, until};

/// Tokens that a client asks for who does not stay to read them.
const WANTED: f64 = 1_500.0;

fn worker() -> Server {
    worker_with(&[])
}

fn worker_with(more: &[&str]) -> Server {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let path = model.to_str().expect("a path in UTF-8");
    Server::worker(&[&["--model", path, "--served-model-name", "target"][..], more].concat())
}

fn in_use(server: &Server) -> bool {
    server.metric("vllm:kv_cache_usage_perc") > 0.0
}

/// The worker lets go of the request, and has not gone on with it: told by what it generated, for
/// how long that took depends on what else the machine does.
fn freed(server: &Server, tokens_max: f64) {
    until("the blocks are free", || !in_use(server));
    assert!(server.metric("vllm:num_requests_running") == 0.0);
    let generated = server.metric("vllm:generation_tokens_total");
    assert!(generated <= tokens_max, "{generated} tokens were generated for nobody");
}

// Faults: 64
#[test]
fn leaving_mid_stream_frees_the_blocks() {
    let server = worker();
    let body = json!({"model": "target", "stream": true, "max_tokens": 1500, "ignore_eos": true,
                      "messages": [{"role": "user", "content": "Count from 1 to 100."}]});
    let mut stream = server.open("POST", "/v1/chat/completions", &body.to_string());
    let mut first = [0; 2048];
    let mut seen = String::new();
    while !seen.contains("\"content\"") {
        let read = stream.read(&mut first).expect("the stream is open");
        seen.push_str(&String::from_utf8_lossy(&first[..read]));
    }
    // The role may be told before the first step.
    until("it is computing", || in_use(&server));
    drop(stream);
    freed(&server, WANTED / 2.0);
}

// Faults: 64
#[test]
fn leaving_in_prefill_frees_the_blocks() {
    // The first of many steps shows that it is computing.
    let server = worker_with(&["--max-num-batched-tokens", "16"]);
    let prompt = "word ".repeat(1_200);
    let body = json!({"model": "target", "max_tokens": 600, "ignore_eos": true, "prompt": prompt});
    let stream = server.open("POST", "/v1/completions", &body.to_string());
    until("it is computing", || in_use(&server));
    drop(stream);
    freed(&server, 0.0);
}

#[test]
fn leaving_the_gateway_stops_the_worker_behind_it() {
    let worker = worker();
    let gateway = Server::serve(&["--worker", &format!("http://{}", worker.address)]);
    let body = json!({"model": "target", "stream": true, "max_tokens": 1500, "ignore_eos": true,
                      "messages": [{"role": "user", "content": "Count from 1 to 100."}]});
    let mut stream = gateway.open("POST", "/v1/chat/completions", &body.to_string());
    let mut first = [0; 64];
    stream.read_exact(&mut first).expect("an answer begins");
    until("it is computing", || in_use(&worker));
    drop(stream);
    freed(&worker, WANTED / 2.0);
}

// Faults: 78
#[test]
fn a_drain_lets_streams_finish_and_then_ends() {
    let mut server = Server::serve(&[]);
    let body = json!({"model": "overdraft-target", "stream": true, "max_tokens": 200,
                      "ignore_eos": true,
                      "messages": [{"role": "user", "content": "Count from 1 to 40."}]});
    let mut stream = server.open("POST", "/v1/chat/completions", &body.to_string());
    let mut first = [0; 64];
    stream.read_exact(&mut first).expect("an answer begins");
    server.signal("TERM");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the stream goes on");
    assert!(rest.contains("data: [DONE]"), "the stream was not finished: {rest}");
    assert!(server.ended().success(), "{}", server.log());
}

#[test]
fn rubbish_gets_an_error_object_and_the_process_lives() {
    let server = Server::serve(&[]);
    let chat = "/v1/chat/completions";
    let deep = "[".repeat(100_000);
    let rubbish = [
        ("POST", chat, "", 400),
        ("POST", chat, "{", 400),
        ("POST", chat, "[]", 400),
        ("POST", chat, "{\"model\":\"overdraft-target\"}", 400),
        ("POST", chat, "{\"model\":\"overdraft-target\",\"messages\":\"hi\"}", 400),
        ("POST", chat, deep.as_str(), 400),
        ("POST", chat, "{\"model\":\"\u{1}\",\"messages\":[]}", 400),
        (
            "POST",
            chat,
            "{\"model\":\"nobody\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
            404,
        ),
        ("GET", chat, "", 405),
        ("GET", "/nowhere", "", 404),
        ("DELETE", "/v1/models", "", 405),
    ];
    for (method, path, body, status) in rubbish {
        let answer = server.ask(method, path, body);
        let shown = &body[..body.len().min(60)];
        assert_eq!(answer.status, status, "{method} {path} {shown}: {}", answer.body);
        assert!(answer.body.contains("\"message\":"), "{method} {path} {shown}: {}", answer.body);
    }
    for (bytes, is_http) in [
        (&b"\x16\x03\x01\x02\x00"[..], false),
        (b"\0\0\0\0\r\n\r\n", true),
        (b"GET / HTTP/9.9\r\n\r\n", true),
    ] {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out can be set");
        stream.write_all(bytes).expect("the bytes are taken");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the connection ends in time");
        let answer = String::from_utf8_lossy(&answer);
        let is_refused = answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"message\":");
        assert!(is_refused || !is_http, "{bytes:?}: {answer}");
    }
    assert_eq!(server.ask("GET", "/healthz", "").status, 200, "{}", server.log());
}
