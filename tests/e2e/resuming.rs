//! Workers killed in the middle of an answer: the client gets the answer of an undisturbed run.
#![expect(
    clippy::disallowed_methods,
    reason = "how many kills is for whoever runs the test to say"
)]

use std::io::Read;

use serde_json::{Value, json};

use crate::harness::{Server, root, until};

/// Kills in the gate; `OVERDRAFT_KILLS` says how many otherwise.
const KILLS: usize = 4;

/// Tokens of an answer: long enough that a kill comes before its end.
const TOKENS: usize = 160;

fn arguments() -> Vec<String> {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let path = model.to_str().expect("a path in UTF-8").to_owned();
    ["--model", &path, "--served-model-name", "target"].map(str::to_owned).to_vec()
}

fn worker(at: Option<std::net::SocketAddr>) -> Server {
    let arguments = arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    at.map_or_else(|| Server::worker(&arguments), |at| Server::worker_at(at, &arguments))
}

fn question(number: usize, is_streamed: bool) -> Value {
    let said = format!("Tell me about the number {number}.");
    let mut body = json!({
        "model": "target", "stream": is_streamed, "temperature": 0, "min_tokens": TOKENS,
        "max_tokens": TOKENS, "messages": [{"role": "user", "content": said}],
    });
    if is_streamed {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

/// What a client has of a stream.
#[derive(Debug, Default)]
struct Seen {
    head: String,
    text: String,
    finish: Vec<String>,
    usage: Vec<Value>,
    ids: std::collections::BTreeSet<String>,
    roles: usize,
    is_done: bool,
    resumed: usize,
    errors: Vec<Value>,
}

impl Seen {
    /// Reads what has come; the gateway frames whole events.
    fn of(raw: &str) -> Self {
        let mut seen = Self::default();
        let (head, body) = raw.split_once("\r\n\r\n").unwrap_or((raw, ""));
        head.clone_into(&mut seen.head);
        seen.resumed = body.matches(": x-overdraft-resumed: ").count();
        for data in body.lines().filter_map(|line| line.strip_prefix("data: ")) {
            seen.is_done |= data == "[DONE]";
            let Ok(chunk) = serde_json::from_str::<Value>(data) else { continue };
            seen.ids.insert(chunk["id"].to_string());
            seen.usage.extend(Some(chunk["usage"].clone()).filter(|usage| !usage.is_null()));
            seen.errors.extend(Some(chunk["error"].clone()).filter(|error| !error.is_null()));
            let choice = &chunk["choices"][0];
            seen.roles += usize::from(choice["delta"]["role"].is_string());
            seen.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            seen.finish.extend(choice["finish_reason"].as_str().map(str::to_owned));
        }
        seen
    }

    /// Who answers, by its place among `workers`.
    fn worker(&self, workers: &[Server]) -> usize {
        let named = self.head.lines().find_map(|line| line.strip_prefix("x-overdraft-worker: "));
        let named = named.expect("an answer names its worker");
        let is_named = |worker: &Server| worker.address.to_string() == named;
        workers.iter().position(is_named).expect("a worker of ours")
    }
}

// Faults: 23
#[test]
fn an_answer_whose_worker_is_killed_is_the_undisturbed_one() {
    let kills = std::env::var("OVERDRAFT_KILLS").ok().and_then(|said| said.parse().ok());
    let kills: usize = kills.unwrap_or(KILLS);
    let mut workers = vec![worker(None), worker(None)];
    let urls: Vec<String> =
        workers.iter().map(|worker| format!("http://{}", worker.address)).collect();
    let gateway = Server::serve(&["--worker", &urls[0], "--worker", &urls[1]]);
    let both_up = || gateway.metric("overdraft_worker_up") > 1.5;
    until("both workers are up", both_up);
    let mut resumed = 0;
    for number in 0..kills {
        let whole = gateway.chat(&question(number, false));
        let expected = &whole["choices"][0]["message"]["content"];
        let mut stream =
            gateway.open("POST", "/v1/chat/completions", &question(number, true).to_string());
        let mut bytes = Vec::new();
        let mut piece = [0; 4_096];
        // After another number of tokens each time.
        while Seen::of(&String::from_utf8_lossy(&bytes)).text.len() <= 7 * number % 97 {
            let read = stream.read(&mut piece).expect("the answer goes on");
            assert!(0 < read, "{}", gateway.log());
            bytes.extend_from_slice(&piece[..read]);
        }
        let victim = Seen::of(&String::from_utf8_lossy(&bytes)).worker(&workers);
        let address = workers[victim].address;
        drop(workers.remove(victim));
        stream.read_to_end(&mut bytes).expect("the answer ends");
        let seen = Seen::of(&String::from_utf8_lossy(&bytes));
        assert!(seen.errors.is_empty(), "{number}: {seen:?}\n{}", gateway.log());
        assert_eq!(Some(seen.text.as_str()), expected.as_str(), "{number}: {seen:?}");
        assert_eq!(seen.finish, ["length"], "{number}: {seen:?}");
        assert!(seen.is_done && seen.roles == 1 && seen.ids.len() == 1, "{number}: {seen:?}");
        let usage = &seen.usage[0];
        assert_eq!(seen.usage.len(), 1, "{number}: {seen:?}");
        for count in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(usage[count], whole["usage"][count], "{number}: {count}");
        }
        resumed += seen.resumed;
        workers.insert(victim, worker(Some(address)));
        until("both workers are up", both_up);
    }
    assert!(0 < resumed, "every answer was over before its worker was killed");
}

#[test]
fn an_answer_goes_on_at_its_own_worker_once_that_is_restarted() {
    let only = worker(None);
    let address = only.address;
    let gateway = Server::serve(&["--worker", &format!("http://{address}")]);
    let is_up = || gateway.metric("overdraft_worker_up") > 0.5;
    until("the worker is up", is_up);
    let whole = gateway.chat(&question(1, false));
    let mut stream = gateway.open("POST", "/v1/chat/completions", &question(1, true).to_string());
    let mut bytes = vec![0; 4_096];
    let read = stream.read(&mut bytes).expect("the answer begins");
    bytes.truncate(read);
    drop(only);
    let _restarted = worker(Some(address));
    stream.read_to_end(&mut bytes).expect("the answer ends");
    let seen = Seen::of(&String::from_utf8_lossy(&bytes));
    assert!(seen.errors.is_empty() && seen.is_done, "{seen:?}\n{}", gateway.log());
    let expected = whole["choices"][0]["message"]["content"].as_str();
    assert_eq!(Some(seen.text.as_str()), expected, "{seen:?}");
}
