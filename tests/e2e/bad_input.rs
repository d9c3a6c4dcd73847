//! Files and flags that cannot be used: exit code 2, what is wrong, what to do.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Server, binary, root};

/// Runs `overdraft worker` to its end and checks that it refuses with all of `expected`.
#[track_caller]
fn refuses(model: &Path, expected: &[&str]) {
    let out = Command::new(binary())
        .args(["worker", "--listen", "127.0.0.1:0", "--model"])
        .arg(model)
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    for part in expected.iter().chain(&["error: ", "hint: "]) {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

fn shipped() -> Vec<u8> {
    std::fs::read(root().join("models/overdraft-draft.q8_0.gguf")).expect("the models are there")
}

/// Writes a changed model and keeps its folder alive.
fn altered(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("it is writable");
    (folder, path)
}

fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len(), "lengths stand before the strings");
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|w| w == old.as_bytes()) {
        bytes[at + found..at + found + old.len()].copy_from_slice(new.as_bytes());
        at += found + old.len();
    }
    bytes
}

#[test]
fn a_file_that_is_not_there() {
    refuses(Path::new("no-such-file.gguf"), &["no-such-file.gguf"]);
}

#[test]
fn a_file_that_is_not_a_model() {
    let (_folder, path) = altered("page.gguf", b"<!doctype html><title>404</title>");
    refuses(&path, &["page.gguf"]);
}

#[test]
fn a_truncated_model() {
    let whole = shipped();
    let (_folder, path) = altered("half.gguf", &whole[..whole.len() / 2]);
    refuses(&path, &["half.gguf"]);
    let (_folder, path) = altered("head.gguf", &whole[..100]);
    refuses(&path, &["head.gguf"]);
}

#[test]
fn an_architecture_nobody_knows() {
    let changed = replaced(&shipped(), "llama", "lxama");
    let (_folder, path) = altered("lxama.gguf", &changed);
    refuses(&path, &["lxama", "qwen2"]);
}

#[test]
fn a_model_without_a_tokenizer() {
    let changed = replaced(&shipped(), "tokenizer.ggml.tokens", "tokenizer.ggml.tokxns");
    let (_folder, path) = altered("mute.gguf", &changed);
    refuses(&path, &["tokenizer"]);
}

#[test]
fn an_address_that_is_taken() {
    let first = Server::serve(&[]);
    let taken = first.address.to_string();
    let out = Command::new(binary()).args(["serve", "--listen", &taken]).output();
    let out = out.expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains(&taken) && said.contains("hint: "), "{said}");
}

#[test]
fn a_cache_that_holds_nothing_or_too_little() {
    for flag in ["--num-gpu-blocks-override", "--kv-cache-memory-bytes"] {
        let out = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", flag, "0"])
            .output()
            .expect("the binary starts");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("`{flag} 0` would leave the engine nothing")), "{said}");
    }
    let file = root().join("models/overdraft-draft.q8_0.gguf");
    let file = file.to_str().expect("a path in UTF-8");
    let worker = Server::worker(&["--model", file, "--kv-cache-memory-bytes", "1"]);
    let log = worker.log();
    assert!(log.contains("the cache has room for 16 tokens"), "{log}");
    assert!(log.contains("`--kv-cache-memory-bytes "), "{log}");
}

#[test]
fn a_certificate_that_is_not_there_is_told_before_any_address() {
    let out = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--worker", "http://127.0.0.1:1"])
        .args(["--ssl-certfile", "/nowhere.crt", "--ssl-keyfile", "/nowhere.key"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("/nowhere.crt") && said.contains("hint: "), "{said}");
    assert!(!said.contains("https://"), "{said}");
}

#[test]
fn a_level_of_the_log_that_is_none() {
    let out = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "ingo"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("`ingo` is no level") && said.contains("`info`"), "{said}");
}

#[test]
fn a_worker_address_that_is_none() {
    let out = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--worker", "ftp://elsewhere"])
        .output()
        .expect("the binary starts");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("ftp://elsewhere"), "{said}");
}
