//! The write-ups' rules and metrics before real workers.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use serde_json::json;

use crate::harness::{Server, until};

/// The name that clients ask for.
const CHAT: &str = "chat";
/// The same model at workers whose depth goes by another rule.
const TRIED: &str = "chat-by-threshold";

/// A worker that guesses by looking its prompt up, with this rule for the depth.
fn guessing(name: &str, policy: &str) -> Server {
    let backend = ["--backend", "echo", "--served-model-name", name];
    let guesses = ["--speculative-ngram", "--speculation-policy", policy];
    Server::worker(&[&backend[..], &guesses[..]].concat())
}

/// A gateway before these workers, and `more` of a configuration.
fn serve(workers: &[(&str, &Server)], more: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    let mut text = "workers:\n".to_owned();
    for (model, worker) in workers {
        let _ = writeln!(text, "  - {{url: 'http://{}', model: {model}}}", worker.address);
    }
    std::fs::write(&file, text + more).expect("it is writable");
    let server = Server::serve(&["--config", &file.display().to_string()]);
    let up = format!("\"workers_up\":{},", workers.len());
    until("all workers are up", || server.ask("GET", "/healthz", "").body.contains(&up));
    (server, folder)
}

/// Asks so many times for something that can be guessed.
fn ask(server: &Server, model: &str, times: usize) {
    for one in 0..times {
        let text = "one two three one two three one two three";
        let message = json!({"role": "user", "content": format!("{one} {text}")});
        let body = json!({"model": model, "messages": [message], "max_tokens": 24});
        server.chat(&body);
    }
}

#[test]
fn d9_a_rule_for_the_depth_gets_a_share_and_is_compared() {
    let (fixed, tried) = (guessing(CHAT, "fixed:4"), guessing(TRIED, "threshold"));
    let canary = format!("canaries: {{{CHAT}: {{model: {TRIED}, share: 50%}}}}\n");
    let (server, _folder) = serve(&[(CHAT, &fixed), (TRIED, &tried)], &canary);
    ask(&server, CHAT, 160);
    let drafts = |worker: &Server| worker.metric("vllm:spec_decode_num_drafts_total");
    assert!(0.0 < drafts(&fixed) && 0.0 < drafts(&tried), "both guess, each by its own rule");
    let page = server.ask("GET", "/metrics", "").body;
    let value = |line: &str| -> f64 {
        let found = page.lines().find_map(|own| own.strip_prefix(line));
        found.unwrap_or_else(|| panic!("{line}: {page}")).trim().parse().expect("a number")
    };
    let answered = |arm: &str| {
        value(&format!(
            "overdraft_canary_requests_total{{canary=\"{CHAT}\",arm=\"{arm}\",outcome=\"answered\"}}"
        ))
    };
    let (baseline, canary) = (answered("baseline"), answered("canary"));
    assert!((baseline + canary - 160.0).abs() < 0.5, "{baseline} and {canary}");
    // Half of them, give or take five of its deviations.
    assert!((48.0..=112.0).contains(&canary), "{canary} of 160");
    let bound = |bound: &str| {
        value(&format!(
            "overdraft_canary_difference{{canary=\"{CHAT}\",figure=\"latency_seconds\",bound=\"{bound}\"}}"
        ))
    };
    assert!(bound("low") <= bound("estimate") && bound("estimate") <= bound("high"));
}

/// One key may ask once a minute, and the target itself, so that the target answers and somebody is refused.
const CONFIGURATION: &str = "\
routing: {policy: fit-score}
cache: {mode: on}
cascades: {large: {draft: small, threshold: 0%, slowdown: any}}
keys:
  - {key: all-of-it, tenant: one}
  - {key: once-a-minute, tenant: two, requests_per_minute: 1, cascade: false}
";

/// A simulated worker, a hundred times as fast.
fn simulated(name: &str) -> Server {
    let profile = ["--simulate", "h100/llama-3-8b-fp8", "--speed", "100"];
    Server::worker(&[&profile[..], &["--served-model-name", name]].concat())
}

/// Asks as the owner of `key`, some things more than once and all of them without chance.
fn load(server: &Server, key: &str, model: &str, times: usize) {
    for one in 0..times {
        let question = format!("{} and again. [answer:20]", one % 8);
        let body = json!({"model": model, "temperature": 0, "max_tokens": 32,
            "messages": [{"role": "user", "content": question}]});
        let body = body.to_string();
        let length = body.len();
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + &body).as_bytes()).expect("the request is taken");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
    }
}

/// Whether a page has a series of that name with all of these labels.
fn has(page: &str, name: &str, labels: &[&str]) -> bool {
    let named =
        |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    page.lines().filter(named).any(|line| labels.iter().all(|label| line.contains(label)))
}

#[test]
fn s3_every_metric_of_the_write_ups_is_there_after_a_real_run() {
    let (large, small) = (simulated("large"), simulated("small"));
    let workers = [("large", &large), ("small, pool: draft", &small)];
    let (server, _folder) = serve(&workers, CONFIGURATION);
    load(&server, "all-of-it", "large", 24);
    load(&server, "all-of-it", "small", 24);
    load(&server, "once-a-minute", "large", 3);
    let guesses = guessing(CHAT, "fixed:4");
    ask(&guesses, CHAT, 4);
    let page = server.ask("GET", "/metrics", "").body;
    for (name, labels) in [
        ("speculative_acceptance_ratio", &["large"][..]),
        ("router_request_duration_seconds_bucket", &["pool=\"target\"", "le="]),
        ("router_request_duration_seconds_bucket", &["pool=\"draft\"", "le="]),
        ("router_rejections_total", &["reason=\"budget_requests\""]),
        ("router_fit_score_bucket", &["le="]),
        ("router_evictions_prevented", &[]),
        ("llm_cache_hit_ratio", &[]),
        ("llm_request_duration_seconds_bucket", &["cache_hit=\"true\"", "model=\"small\""]),
        ("llm_request_duration_seconds_bucket", &["cache_hit=\"false\"", "model=\"small\""]),
    ] {
        assert!(has(&page, name, labels), "{name} {labels:?}: {page}");
    }
    let own = guesses.ask("GET", "/metrics", "").body;
    assert!(has(&own, "vllm_spec_acceptance_rate", &["model=\"chat\""]), "{own}");
    let engine = large.ask("GET", "/metrics", "").body;
    for name in [
        "vllm:kv_cache_usage_perc",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_preemptions_total",
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_queries_total",
        "vllm:generation_tokens_total",
        "vllm:request_queue_time_seconds_bucket",
        "vllm:request_time_per_output_token_seconds_bucket",
    ] {
        assert!(has(&engine, name, &["model_name=\"large\""]), "{name}: {engine}");
    }
    // What `tests/alerts/write_ups.py` reads.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("write-ups");
    std::fs::create_dir_all(&kept).expect("it can be made");
    for (name, text) in [("gateway", page), ("guessing", own), ("engine", engine)] {
        std::fs::write(kept.join(format!("{name}.prom")), text).expect("it is writable");
    }
}
