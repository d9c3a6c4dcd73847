//! Workers without a GPU: answers of the length that was asked for, and what becomes of too much.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Server, binary, until};

/// Requests at once that no cache of [`SMALL`] tokens holds to their ends.
const CLIENTS: usize = 12;
/// Tokens of a small cache.
const SMALL: &str = "768";

fn ask(answer: u32, max_tokens: u32) -> Value {
    ask_as(0, answer, max_tokens)
}

/// Each client's prompt begins differently: equal ones would share every page, answers and all.
fn ask_as(client: usize, answer: u32, max_tokens: u32) -> Value {
    let said = format!("{client} asks to be told. [answer:{answer}]");
    json!({
        "model": "llama-3-8b", "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": said}],
    })
}

/// The fastest of the profiles that ship, a hundred times as fast.
fn worker(more: &[&str]) -> Server {
    let mut arguments = vec!["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"];
    arguments.extend(more);
    Server::worker(&arguments)
}

#[test]
fn an_answer_is_as_long_as_its_prompt_asks_and_never_longer_than_allowed() {
    let server = worker(&[]);
    let whole = server.chat(&ask(50, 400));
    assert_eq!(whole["usage"]["completion_tokens"], 50, "{whole}");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop", "{whole}");
    let cut = server.chat(&ask(50, 20));
    assert_eq!(cut["usage"]["completion_tokens"], 20, "{cut}");
    assert_eq!(cut["choices"][0]["finish_reason"], "length", "{cut}");
    let page = server.ask("GET", "/metrics", "").body;
    // 74.0 GB less 9.1 GB of weights, at 128 KiB for a token.
    let told = page.lines().find(|line| line.starts_with("vllm:cache_config_info"));
    let told = told.expect("the cache is told");
    let blocks = told.split_once("num_gpu_blocks=\"").and_then(|(_, rest)| rest.split_once('"'));
    let blocks: u32 = blocks.and_then(|(count, _)| count.parse().ok()).expect("a count");
    assert!((30_500..31_500).contains(&blocks), "{told}");
}

#[test]
fn answers_without_a_wish_have_lengths_of_their_own() {
    let server = worker(&["--answer-tokens", "lognormal:30:0.5", "--seed", "5"]);
    let length = |said: &str| {
        let messages = json!([{"role": "user", "content": said}]);
        let body = json!({"model": "llama-3-8b", "max_tokens": 4000, "messages": messages});
        server.chat(&body)["usage"]["completion_tokens"].as_u64().expect("a count")
    };
    let lengths: Vec<u64> = ["a", "b", "c", "d", "e", "f"].map(length).to_vec();
    assert!(lengths.iter().any(|&one| one != lengths[0]), "{lengths:?}");
    assert!(lengths.iter().all(|one| (5..200).contains(one)), "{lengths:?}");
    assert_eq!(length("a"), lengths[0], "the same prompt is answered alike");
}

#[test]
fn a_cache_that_is_overdrawn_preempts_and_all_answers_are_whole() {
    let server = worker(&["--kv-tokens", SMALL]);
    let chat = |client| server.chat(&ask_as(client, 300, 600));
    let chat = &chat;
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..CLIENTS).map(|n| scope.spawn(move || chat(n))).collect();
        for one in asking {
            let answer = one.join().expect("it is answered");
            assert_eq!(answer["usage"]["completion_tokens"], 300, "{answer}");
        }
    });
    assert!(0.0 < server.metric("vllm:num_preemptions_total"));
}

#[test]
fn a_worker_that_crashes_on_oom_dies_as_if_it_were_killed() {
    let mut server = worker(&["--kv-tokens", SMALL, "--crash-on-oom"]);
    let body = |client| ask_as(client, 300, 600).to_string();
    let path = "/v1/chat/completions";
    let open: Vec<_> = (0..CLIENTS).map(|n| server.open("POST", path, &body(n))).collect();
    let status = server.ended();
    drop(open);
    assert_eq!(status.code(), Some(137), "{}", server.log());
    until("the reason is read", || server.log().contains("died: out of memory"));
}

#[test]
fn a_request_that_fits_alone_kills_nobody() {
    let server = worker(&["--kv-tokens", SMALL, "--crash-on-oom"]);
    for _ in 0..3 {
        assert_eq!(server.chat(&ask(300, 600))["usage"]["completion_tokens"], 300);
    }
}

#[test]
fn a_step_takes_its_time() {
    // One token of a 70B on one H100 takes 30 ms: twenty of them more than half a second.
    let server = Server::worker(&["--simulate", "h100/llama-3-70b-fp8"]);
    let mut body = ask(20, 40);
    body["model"] = json!("llama-3-70b");
    server.chat(&body);
    let mean = |name: &str| {
        server.metric(&format!("{name}_sum")) / server.metric(&format!("{name}_count"))
    };
    let gap = mean("vllm:inter_token_latency_seconds");
    assert!(gap >= Duration::from_millis(25).as_secs_f64(), "{gap}");
}

/// Runs `overdraft worker` to its end.
#[track_caller]
fn said(arguments: &[&str], code: i32, expected: &[&str]) {
    let out = Command::new(binary())
        .args(["worker", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .output()
        .expect("the binary starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{text}");
    for part in expected {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn profiles_are_listed_and_what_is_none_is_refused() {
    said(
        &["--simulate", "list"],
        0,
        &["h100-tp2/llama-3-70b-fp8", "a10g-tp1/llama-3-8b-int4", "C: "],
    );
    said(
        &["--simulate", "h100/lama-3-8b-fp8"],
        2,
        &["most alike: `h100-tp1/llama-3-8b-fp8`", "hint: "],
    );
    said(&["--simulate", "a10g/llama-3-70b-fp8"], 2, &["52.6 GB more than the 20.1 GB left"]);
    said(&["--simulate", "nonsense"], 2, &["expected HARDWARE-tpN/MODEL-WEIGHTS"]);
    let profile = ["--simulate", "h100/llama-3-8b-fp8"];
    said(&[&profile[..], &["--speed", "0"]].concat(), 2, &["from 0.01 to 1000"]);
    said(&[&profile[..], &["--answer-tokens", "many"]].concat(), 2, &["lognormal:MEDIAN:SIGMA"]);
    said(&[&profile[..], &["--kv-tokens", "3"]].concat(), 2, &["`--kv-tokens 3`", "at least `16`"]);
    said(&[&profile[..], &["--profile", "no-such.toml"]].concat(), 2, &["no-such.toml"]);
}
