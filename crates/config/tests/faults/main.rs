//! What is said about a file that cannot be used: every message, word for word.

mod admin;
mod admission;
mod cache;
mod cascade;
mod cors;
mod headers;
mod http2;
mod jwt;
mod keys;
mod maintenance;
mod meaning;
mod notation;
mod speculation;
mod tls;
mod types;
mod variables;

use std::path::Path;

use overdraft_config::{Loader, Variables};

/// Loads `text` under `name` with `variables` as the whole environment, and compares what is said.
#[track_caller]
fn check(name: &str, text: &str, variables: &[(&str, &str)], expected: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("it is writable");
    let said = refusal(&path, variables);
    let said = said.replace(&format!("{}/", folder.path().display()), "");
    assert_eq!(said, expected.trim_matches('\n'), "\n{said}");
}

/// What is said about the file at `path`.
#[track_caller]
fn refusal(path: &Path, variables: &[(&str, &str)]) -> String {
    let variables: Variables = variables.iter().copied().collect();
    let loaded = Loader::new(path).with_variables(variables).load();
    loaded.expect_err("the file cannot be used").to_string()
}
