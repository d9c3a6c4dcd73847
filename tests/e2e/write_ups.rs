//! The write-ups' rules and metrics before real workers.

use std::fmt::Write as _;

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
