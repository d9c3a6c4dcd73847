//! `overdraft calibrate`: a worker whose profile is known is measured, and found again.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Server, binary, until};

/// A profile that ships, at a quarter of its speed: a step takes tens of milliseconds, so that what the
/// machine beside it does weighs little.
const WORKER: [&str; 8] = [
    "--simulate",
    "h100/llama-3-8b-bf16",
    "--speed",
    "0.25",
    "--kv-tokens",
    "60000",
    "--answer-tokens",
    "20",
];

#[track_caller]
fn calibrate(server: &Server, more: &[&str], code: i32) -> String {
    let url = format!("http://{}", server.address);
    let out = Command::new(binary())
        .args(["calibrate", &url])
        .args(more)
        .output()
        .expect("the binary starts");
    let text =
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{text}");
    text
}

#[test]
fn a_simulated_worker_is_measured_and_found_again() {
    let server = Server::worker(&WORKER);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("mine.toml");
    let path = file.to_str().expect("a plain name");
    let flags = ["--quick", "--hardware", "mine", "--write", path, "--max-num-seqs", "1024"];
    let told = calibrate(&server, &flags, 0);
    assert!(told.contains("mean absolute error") && told.contains("not fitted"), "{told}");
    assert!(told.contains(" of a prompt beside 4 answers at "), "{told}");
    assert!(told.contains("--profile mine-tp1/llama-3-8b-measured --network-ms "), "{told}");
    let simulate = |profile: &str, load: &[&str], more: &[&str]| -> Value {
        let out = Command::new(binary())
            .args(["simulate", "--policy", "cost", "--workers", "1", "--num-prompts", "60"])
            .args(["--output", "json", "--profile", profile, "--kv-tokens", "60000"])
            .args(load)
            .args(more)
            .output()
            .expect("the binary starts");
        let text = String::from_utf8_lossy(&out.stdout);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    };
    // A quarter of the speed. In an open loop a quarter of the rate is then the same load in slower time: users of a closed
    // loop wait for one another's prompts or do not, by a hair's breadth.
    let users = ["--workload", "unique:question=600,output=100,spread=0", "--users", "6"];
    let at = |rate: &'static str| {
        ["--workload", "unique:question=600,output=100", "--request-rate", rate]
    };
    let [fast, slow] = [at("4"), at("1")];
    for (name, factor, fast, slow) in [
        ("output_throughput", 0.25, &users[..], &users[..]),
        ("median_tpot_ms", 4.0, &users[..], &users[..]),
        ("mean_ttft_ms", 4.0, &fast[..], &slow[..]),
    ] {
        let known = simulate("h100/llama-3-8b-bf16", fast, &[]);
        let found = simulate("mine/llama-3-8b-measured", slow, &["--profiles", path]);
        let of = |report: &Value| report["runs"][0][name].as_f64().expect("a number");
        let ratio = of(&found) / of(&known) / factor;
        // The machine beside it may be busy; the fit itself is held to a tenth by `fit::tests`.
        assert!((0.75..1.33).contains(&ratio), "{name}: {ratio}\n{told}");
    }
}

#[test]
fn a_busy_worker_is_not_measured() {
    let server = Server::worker(&WORKER);
    let ask = r#"{"model":"llama-3-8b","prompt":"[answer:2000]","max_tokens":2000,"stream":true}"#;
    let _stream = server.open("POST", "/v1/completions", ask);
    until("the request runs", || 0.0 < server.metric("vllm:num_requests_running"));
    let told = calibrate(&server, &["--quick", "--write", "/dev/null"], 1);
    assert!(told.contains("the worker is not idle: `1` requests run"), "{told}");
    assert!(told.contains("hint: take it out of the fleet"), "{told}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let server = Server::worker(&["--backend", "echo"]);
    let folder = calibrate(&server, &["--write", "no/such/folder.toml"], 2);
    assert!(folder.contains("its folder does not exist"), "{folder}");
    let name = calibrate(&server, &["--hardware", "a b"], 2);
    assert!(name.contains("expected letters, digits, dots and dashes"), "{name}");
    let price = calibrate(&server, &["--price-per-hour", "0"], 2);
    assert!(price.contains("`--price-per-hour 0`: expected dollars above zero"), "{price}");
}
