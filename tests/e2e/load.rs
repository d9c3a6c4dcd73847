//! The load tool on the real gateway, and the simulator: what they print, and how they refuse.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::harness::{Server, binary, until};

/// Runs `overdraft` to its end.
fn overdraft(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().expect("the binary starts")
}

/// What it writes when it ends well.
#[track_caller]
pub(crate) fn said(arguments: &[&str]) -> String {
    let out = overdraft(arguments);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// It ends with this code and says all of these things.
#[track_caller]
pub(crate) fn refuses(code: i32, arguments: &[&str], says: &[&str]) {
    let out = overdraft(arguments);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {errors}");
    for part in says {
        assert!(errors.contains(part), "`{part}` is not in: {errors}");
    }
}

/// A gateway before an echo, and the echo.
fn gateway() -> (Server, Server) {
    let worker = Server::worker(&["--backend", "echo"]);
    let gateway = Server::serve(&["--worker", &format!("http://{}", worker.address)]);
    until("the worker is up", || gateway.ask("GET", "/v1/models", "").body.contains("echo"));
    (gateway, worker)
}

#[test]
fn flags_that_would_change_nothing_or_something_else_are_refused() {
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let before = [&serve[..], &["--worker", "http://127.0.0.1:1"]].concat();
    let nothing = "would change nothing: all workers run elsewhere";
    for flags in [["--threads", "4"], ["--block-size", "32"], ["--speculation-policy", "off"]] {
        refuses(2, &[&before[..], &flags].concat(), &[flags[0], nothing]);
    }
    let depth = ["--num-speculative-tokens", "4"];
    let off = "would change nothing: speculation is off";
    refuses(2, &[&serve[..], &depth].concat(), &["`--num-speculative-tokens 4`", off]);
    refuses(2, &["bench", "--max-concurrency", "0"], &["--max-concurrency", "'0'", "1.."]);
    refuses(2, &["bench", "--users", "20000"], &["`--users 20000`: expected 1 to 16384"]);
}

#[test]
fn a_header_that_is_none_says_nothing_of_the_gateway() {
    for header in ["a b: c", "no colon", "name: \u{1}"] {
        let explain = ["explain", "--url", "http://127.0.0.1:1", "--prompt", "x", "-H", header];
        refuses(2, &explain, &["is not a header; expected `name: value`"]);
    }
}

#[test]
fn a_load_on_the_gateway_is_answered_and_told() {
    let (gateway, worker) = gateway();
    let url = format!("http://{}", gateway.address);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("report.html");
    let text = said(&[
        "bench",
        &url,
        "--workload",
        "chat:turns=2,spread=0,think=0,common=40,question=20,output=12,rate=20",
        "--num-prompts",
        "20",
        "--output",
        "json",
        "--goodput",
        "e2el:60000",
        "--html",
        page.to_str().expect("a path in UTF-8"),
    ]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let run = &report["runs"][0];
    assert_eq!(run["completed"], 20, "{text} {}", worker.log());
    assert_eq!(run["failed"], 0);
    assert!(run["request_goodput"].is_number());
    assert!(run["total_output_tokens"].as_u64() > Some(20), "{text}");
    // The echo makes a token of a byte: lengths were kept in tokens, by fewer words.
    let prompts = run["total_input_tokens"].as_u64().expect("a count");
    assert!((20 * 60..20 * 200).contains(&prompts), "{prompts}");
    assert_eq!(report["simulated"], false);
    let html = std::fs::read_to_string(page).expect("the page is written");
    assert!(html.starts_with("<!doctype html>") && html.contains("Successful requests"));
}

#[test]
fn a_trace_is_replayed_with_what_its_prompts_share() {
    let (gateway, _worker) = gateway();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace.jsonl");
    let line = |at: u32, last: u32| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 700, \"output_length\": 4, \
             \"hash_ids\": [1, {last}]}}\n"
        )
    };
    let lines: String = (0..6).map(|number| line(number * 500, number + 2)).collect();
    std::fs::write(&trace, lines).expect("it is writable");
    let workload = format!("mooncake:{}", trace.display());
    let url = format!("http://{}", gateway.address);
    let text = said(&["bench", &url, "--workload", &workload, "--output", "json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let run = &report["runs"][0];
    assert_eq!(run["completed"], 6, "{text}");
    // All but the first find the block that they share.
    assert!(run["total_cached_tokens"].as_u64() > Some(5 * 300), "{text}");
}

#[test]
fn a_load_that_cannot_be_sent_is_refused_with_what_to_do() {
    let nowhere = "http://127.0.0.1:1";
    refuses(1, &["bench", nowhere], &["the endpoint does not answer", "hint: "]);
    let typo = ["bench", nowhere, "--workload", "monncake:x"];
    refuses(2, &typo, &["`monncake` is no workload", "did you mean `mooncake`?"]);
    refuses(
        2,
        &["bench", "ftp://a", "--model", "m"],
        &["no scheme", "expected `http://host:port`"],
    );
    let trusting = ["bench", "https://a", "--cacert", "nowhere.pem"];
    refuses(2, &trusting, &["`nowhere.pem` cannot be read", "expected certificates in PEM"]);
    refuses(2, &["bench", nowhere, "--goodput", "ttlt:5"], &["`ttlt:5` is no objective"]);
    let words = ["bench", nowhere, "--model", "m", "--tokens-per-word", "inf"];
    refuses(2, &words, &["`--tokens-per-word inf`: expected a number above zero"]);
    let hasty = ["bench", nowhere, "--request-timeout", "0"];
    refuses(2, &hasty, &["'0' for '--request-timeout", "1.."]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace.jsonl");
    std::fs::write(&trace, "{\"timestamp\": 0}\n").expect("it is writable");
    let workload = format!("mooncake:{}", trace.display());
    let simulate = ["simulate", "--workload", &workload];
    refuses(2, &simulate, &["trace.jsonl` line 1", "missing field", "expected JSON lines"]);
}

#[test]
fn a_simulation_says_that_it_is_one_and_repeats() {
    let simulate =
        ["simulate", "--workload", "tenants:groups=4,prefix=500,output=20", "--seeds", "2"];
    let arguments = [&simulate[..], &["--num-prompts", "80", "--digest"]].concat();
    let first = said(&arguments);
    assert!(first.starts_with("SIMULATED"), "{first}");
    assert!(first.contains("cost") && first.contains("round-robin") && first.contains('±'));
    assert_eq!(first.matches("digest ").count(), 4);
    assert_eq!(first, said(&arguments), "the same seeds, the same history");
    let text = said(&[&arguments[..], &["--output", "json"]].concat());
    let told: Value = serde_json::from_str(&text).expect("JSON and nothing behind it");
    let digest = told["runs"][0]["digest"].as_str().expect("a number");
    assert!(first.contains(&format!("digest cost seed 0: {digest}\n")), "{first}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("access.jsonl");
    let line = "{\"timestamp\":\"2025-11-22T10:00:10Z\",\"path\":\"/v1/chat/completions\",\
                \"status\":200,\"model\":\"m\",\"tokens_prompt\":1000,\"tokens_out\":50,\
                \"total_us\":800000,\"target\":\"access\",\"worker\":\"a\"}\n";
    std::fs::write(&log, line).expect("it is writable");
    let log = log.to_str().expect("a path in UTF-8");
    let commands: [&[&str]; 5] = [
        &["cost", log, "--price", "4.10"],
        &["cost", log, "--price", "4.10", "--json"],
        &["completions", "bash"],
        &["worker", "--simulate", "list"],
        &["simulate", "--list"],
    ];
    for command in commands {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let out = Command::new(binary()).args(command).stdout(writer).output();
        let out = out.expect("the binary starts");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{command:?}: {errors}");
    }
}

#[test]
fn requests_of_every_dialect_are_in_the_costs() {
    let worker = Server::worker(&["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"]);
    let url = format!("http://{}", worker.address);
    let gateway = Server::serve(&["--worker", &url, "--log-format", "json"]);
    until("the worker is up", || gateway.ask("GET", "/v1/models", "").body.contains("llama-3-8b"));
    let messages = json!([{"role": "user", "content": "Hello. [answer:8]"}]);
    let chat = json!({"model": "llama-3-8b", "max_tokens": 20, "messages": messages});
    let input = json!({"model": "llama-3-8b", "input": messages});
    gateway.post("/v1/chat/completions", &chat);
    gateway.post("/v1/messages", &chat);
    let response = gateway.post("/v1/responses", &input);
    gateway.post("/v1/responses/compact", &input);
    gateway
        .post("/v1/messages/count_tokens", &json!({"model": "llama-3-8b", "messages": messages}));
    let kept = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
    assert_eq!(gateway.ask("GET", &kept, "").status, 200);
    let asked = ["chat/completions", "messages", "responses", "responses/compact"];
    let is_there = |path: &&str| gateway.log().contains(&format!("\"path\":\"/v1/{path}\""));
    until("all lines are written", || asked.iter().all(is_there));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("access.jsonl");
    std::fs::write(&log, gateway.log()).expect("it is writable");
    let log = log.to_str().expect("a path in UTF-8");
    let text = said(&["cost", log, "--price", "4.10", "--json"]);
    let costs: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&costs["requests"], &costs["unanswered"]), (&4.into(), &0.into()), "{text}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    refuses(2, &["simulate", "--policy", "costt"], &["`costt` is no policy", "mean `cost`?"]);
    let profile = ["simulate", "--profile", "h100-tp1/llama-3-70b-bf16"];
    refuses(2, &profile, &["is impossible", "more than the", "hint: take more GPUs"]);
    let unknown = ["simulate", "--profile", "h100-tp1/llama-3-9b-bf16"];
    refuses(2, &unknown, &["is not a known profile", "hint: `--list` shows all profiles"]);
    refuses(2, &["simulate", "--workers", "0"], &["`0` workers", "expected 1 to"]);
    let list = said(&["simulate", "--list"]);
    for name in ["h100-tp1/llama-3-8b-bf16", "fit-score", "mooncake", "tenants"] {
        assert!(list.contains(name), "`{name}` is not listed");
    }
}
