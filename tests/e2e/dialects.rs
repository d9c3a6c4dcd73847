//! Coding agents by their vendors' own clients: 60 turns in both dialects, each answer the same as asked directly.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::client::{python_with, run};
use crate::harness::{Server, binary, root};

/// What plays the sessions, with the interpreter that has the clients.
fn agents() -> Command {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = || python_with("requirements-agents.txt", "agents-clients");
    let mut command = Command::new(PYTHON.get_or_init(python));
    command.arg(root().join("tests/engines/agents.py"));
    command
}

#[test]
fn agents_hear_of_a_scripted_worker_what_it_says_to_chat_completions() {
    let told = run(agents().arg("--scripted").arg(binary()));
    assert_eq!(told.matches("kept: ").count(), 2, "{told}");
}

#[test]
fn agents_hear_of_our_own_worker_what_it_says_to_chat_completions() {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let worker = Server::worker(&["--model", model.to_str().expect("a path in UTF-8")]);
    let worker = format!("http://{}", worker.address);
    let gateway = Server::serve(&["--worker", &worker]);
    let gateway = format!("http://{}", gateway.address);
    let told = run(agents().args([gateway.as_str(), &worker, "overdraft-target.q8_0"]));
    assert_eq!(told.matches("kept: ").count(), 1, "{told}");
}
