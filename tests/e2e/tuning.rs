//! `overdraft tune` on real workers: what it reads, and what it says when there is too little.

use std::process::Command;

use serde_json::json;

use crate::harness::{Server, binary};

/// It ends with this code and says all of these things.
#[track_caller]
fn check(code: i32, arguments: &[&str], says: &[&str]) {
    let out = Command::new(binary()).arg("tune").args(arguments).output().expect("it starts");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {errors}");
    for part in says {
        assert!(errors.contains(part), "`{part}` is not in: {errors}");
    }
}

#[test]
fn too_little_is_said_with_what_to_do_about_it() {
    let arguments = ["--speculative-ngram", "--speculation-policy", "fixed:3"];
    let worker = Server::worker(&[&["--backend", "echo"], &arguments[..]].concat());
    let url = format!("http://{}", worker.address);
    let idle = [url.as_str(), "--seconds", "1", "--every", "100"];
    check(1, &idle, &["`0` drafts were verified; expected at least 200", "--speculative-config"]);
    // What came before it looked does not count.
    worker.post(
        "/v1/completions",
        &json!({ "model": "echo", "prompt": "one two. one two. ", "max_tokens": 400 }),
    );
    assert!(0.0 < worker.metric("vllm:spec_decode_num_drafts_total"));
    check(1, &idle, &["`0` drafts were verified"]);
}

#[test]
fn what_cannot_be_watched_is_named() {
    check(1, &["http://127.0.0.1:9"], &["http://127.0.0.1:9 cannot be read", "vLLM's metrics"]);
    check(2, &["127.0.0.1"], &["`127.0.0.1`"]);
    let url = "http://127.0.0.1:9";
    check(2, &[url, "--every", "1"], &["`--every 1` is out of range; expected at least 50"]);
    check(2, &[url, "--max-depth", "9"], &["`--max-depth 9` is out of range; expected 1 to 8"]);
    check(2, &[url, "--seconds", "0"], &["`--seconds 0` is out of range"]);
}
