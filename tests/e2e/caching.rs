//! Answers that are given again, from a configuration file to the official client.

use std::process::Command;

use crate::client::{python, run};
use crate::harness::{Server, root, until};

#[test]
fn the_official_client_reads_what_is_given_again() {
    let worker = Server::worker(&["--backend", "echo"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("overdraft.yaml");
    let text = format!("workers: [{{url: 'http://{}'}}]\ncache: {{mode: 'on'}}\n", worker.address);
    std::fs::write(&file, text).expect("it is writable");
    let server = Server::serve(&["--config", file.to_str().expect("a path in UTF-8")]);
    until("the worker is up", || server.ask("GET", "/healthz", "").status == 200);
    run(Command::new(python())
        .arg(root().join("tests/e2e/openai_cache.py"))
        .args([&format!("http://{}", server.address), "echo"]));
    assert!(0.0 < server.metric("llm_cache_hit_ratio"));
}
