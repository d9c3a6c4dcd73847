//! What if: a gateway's own access log, replayed under another policy, fleet or price.

use serde_json::{Value, json};

use crate::harness::{Server, until};
use crate::load::{refuses, said};

/// What a gateway before two workers with prefixes to share writes into its log.
fn recorded() -> (tempfile::TempDir, String) {
    let profile = ["--simulate", "h100/llama-3-8b-fp8", "--speed", "50", "--workers", "2"];
    let workers = Server::worker(&profile);
    until("both listen", || workers.log().matches("serves on http://").count() == 2);
    let log = workers.log();
    let urls: Vec<&str> =
        log.split("serves on ").skip(1).filter_map(|l| l.lines().next()).collect();
    let gateway = Server::serve(&[
        "--worker",
        urls[0],
        "--worker",
        urls[1],
        "--policy",
        "round-robin",
        "--log-format",
        "json",
        "--log-prefixes",
    ]);
    let up = || gateway.ask("GET", "/v1/models", "").body.contains("llama-3-8b");
    until("the workers are up", up);
    let url = format!("http://{}", gateway.address);
    let load = "tenants:groups=4,prefix=3000,question=100,output=20,rate=20";
    let sent = ["bench", &url, "--workload", load, "--num-prompts", "60", "--ignore-eos"];
    said(&sent);
    until("all lines are written", || gateway.log().matches("\"tokens_out\"").count() >= 60);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gateway.log");
    std::fs::write(&file, gateway.log()).expect("it is writable");
    (folder, file.to_str().expect("a path in UTF-8").to_owned())
}

#[test]
fn a_gateways_own_log_is_replayed_under_another_policy_fleet_and_price() {
    let (_folder, file) = recorded();
    let fleet = ["simulate", "--access-log", &file, "--profile", "h100/llama-3-8b-fp8"];
    let fleet = [&fleet[..], &["--workers", "4", "--price-per-hour", "9"]].concat();
    let text = said(&[&fleet[..], &["--output", "json", "--policy", "cost,round-robin"]].concat());
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let cached = |label: &str| {
        let runs = report["runs"].as_array().expect("runs");
        let run = runs.iter().find(|run| run["label"] == label).expect("it was run");
        assert!(run["completed"].as_u64() >= Some(60), "{run}");
        run["total_cached_tokens"].as_f64().expect("a count")
    };
    // Four tenants and four workers: round robin computes each prefix on each of them.
    assert!(cached("round-robin") < cached("cost"), "{text}");
    let costs = &report["what_if"];
    let saved = |label: &str| {
        let work = &costs[label]["work_dollars"];
        let of = |name: &str| work[name].as_f64().expect("dollars");
        let rest = of("whole") - of("saved_by_routing") - of("saved_by_cache");
        assert!((rest - of("saved_by_cascade") - of("remaining")).abs() < 1e-9, "{work}");
        of("saved_by_routing")
    };
    assert!(0.0 < saved("recorded") && saved("round-robin") < saved("cost"), "{costs}");
    assert_eq!(costs["recorded"]["fleet"]["workers"], 2);
    assert_eq!(costs["cost"]["fleet"]["workers"], 4);
    let price = costs["cost"]["fleet"]["dollars_per_hour"].as_f64().expect("dollars");
    assert!((price - 9.0).abs() < 1e-9, "{costs}");
    let table = said(&fleet);
    for part in ["SIMULATED", "recorded", "routing: prefixes found in caches", "what remains"] {
        assert!(table.contains(part), "`{part}` is not in: {table}");
    }
    // The same log is a workload like any other.
    let workload = format!("access:{file}");
    let again = said(&["simulate", "--workload", &workload, "--policy", "cost"]);
    assert!(again.contains("Successful requests"), "{again}");
    let other = [&fleet[..], &["--model", "llama-3-80b"]].concat();
    refuses(2, &other, &["no request for `llama-3-80b` (did you mean `llama-3-8b`?)"]);
}

#[test]
fn a_log_that_cannot_be_replayed_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gateway.log");
    let path = file.to_str().expect("a path in UTF-8");
    refuses(2, &["simulate", "--access-log", path], &["cannot be read", "--log-format json"]);
    std::fs::write(&file, "2025-11-22 INFO access: request=r\n").expect("it is writable");
    refuses(2, &["simulate", "--access-log", path], &["has no requests", "--log-format json"]);
    std::fs::write(&file, "{\"target\":\"access\",\n").expect("it is writable");
    refuses(2, &["simulate", "--access-log", path], &["line 1", "is no line of the log"]);
}

#[test]
fn what_the_response_cache_spared_is_told_apart_and_can_be_asked_after_all() {
    let worker = Server::worker(&["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("overdraft.yaml");
    let text = format!("workers: [{{url: 'http://{}'}}]\ncache: {{mode: 'on'}}\n", worker.address);
    std::fs::write(&config, text).expect("it is writable");
    let config = config.to_str().expect("a path in UTF-8");
    let gateway = Server::serve(&["--config", config, "--log-format", "json", "--log-prefixes"]);
    until("the worker is up", || gateway.ask("GET", "/healthz", "").status == 200);
    let messages = json!([{"role": "user", "content": "Say it again. [answer:30]"}]);
    for _ in 0..3 {
        gateway.chat(&json!({"model": "llama-3-8b", "temperature": 0, "messages": messages}));
    }
    let lines = || gateway.log().matches("\"path\":\"/v1/chat/completions\"").count();
    until("all lines are written", || lines() == 3);
    let file = folder.path().join("gateway.log");
    std::fs::write(&file, gateway.log()).expect("it is writable");
    let file = file.to_str().expect("a path in UTF-8");
    let replay = ["simulate", "--access-log", file, "--policy", "cost", "--output", "json"];
    let told = |more: &[&str]| {
        let text = said(&[&replay[..], more].concat());
        let report: Value = serde_json::from_str(&text).expect("JSON");
        report["what_if"].clone()
    };
    let saved = |costs: &Value, label: &str| {
        costs[label]["work_dollars"]["saved_by_cache"].as_f64().expect("dollars")
    };
    let kept = told(&[]);
    assert!(0.0 < saved(&kept, "recorded"), "{kept}");
    assert!((saved(&kept, "recorded") - saved(&kept, "cost")).abs() < 1e-12, "{kept}");
    let asked = told(&["--without", "cache"]);
    assert!(saved(&asked, "cost").abs() < 1e-12, "{asked}");
    assert!(0.0 < saved(&asked, "recorded"), "{asked}");
}
