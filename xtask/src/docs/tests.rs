//! The guide for contributors must hold: what it says of configuration keys is read off the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell;

/// Where a key may be declared, checked or converted.
const PLUMBING: [&str; 3] =
    ["crates/config/src", "crates/cli/src/settings", "crates/gateway/src/settings"];

/// The files under `folders` that name one of `words`, tests aside.
fn files_with(folders: &[&str], words: &[&str]) -> BTreeSet<PathBuf> {
    let root = shell::root();
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let is_test = path.ends_with("tests.rs") || path.ends_with("tests");
            if path.is_dir() && !is_test {
                open.push(path);
            } else if !is_test && names(&path, words) {
                found.insert(path.strip_prefix(&root).unwrap().to_owned());
            }
        }
    }
    found
}

fn names(file: &Path, words: &[&str]) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let mut named = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    named.any(|word| words.contains(&word))
}

/// A key without a rule of its own: its typed form, its conversion, and the settings that it becomes.
#[test]
fn a_key_stands_in_three_files() {
    for key in ["coalesce", "slow_start", "kv_weight"] {
        let files = files_with(&PLUMBING, &[key]);
        assert!(!files.is_empty(), "`{key}` is no key any more; take another as a sample");
        assert!(files.len() <= 3, "`{key}` stands in {files:?}");
    }
}

/// A key of workers, of one with a fixed address and of all that a source finds.
#[test]
fn a_key_of_workers_stands_in_three_files() {
    let folders = [&PLUMBING[..], &["crates/gateway/src/discovery"]].concat();
    for key in ["kv_share", "priority_scheduling"] {
        let files = files_with(&folders, &[key]);
        assert!(!files.is_empty(), "`{key}` is no key any more; take another as a sample");
        assert!(files.len() <= 3, "`{key}` stands in {files:?}");
    }
}

/// A routing policy: its own file, the table of policies, its name, and its name in the configuration.
#[test]
fn a_routing_policy_stands_in_four_files() {
    let folders = ["crates/core/src", "crates/config/src", "crates/cli/src", "crates/gateway/src"];
    for (name, module) in [("TwoChoices", "two_choices"), ("PrefixAffinity", "prefix_affinity")] {
        let mut files = files_with(&folders, &[name, module]);
        files.insert(format!("crates/core/src/route/policies/{module}.rs").into());
        assert!(files.iter().all(|file| shell::root().join(file).exists()), "{files:?}");
        assert!(files.len() <= 4, "`{name}` stands in {files:?}");
    }
}

/// It follows from the HTTP reference alone, so no binary has to be built to see that it does.
#[test]
fn the_openapi_description_is_that_of_the_page() {
    let root = shell::root();
    let page = fs::read_to_string(root.join("docs/reference/http.md")).unwrap();
    let page = super::tables::Page::read(&page);
    let wanted = super::openapi::document(&page, env!("CARGO_PKG_VERSION"));
    let found = fs::read_to_string(root.join("docs/reference/openapi.json")).unwrap();
    assert!(found == wanted, "out of date; run `cargo xtask docs`");
}
