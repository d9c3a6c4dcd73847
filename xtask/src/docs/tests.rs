//! The guide for contributors must hold: what it says of configuration keys is read off the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell;

/// Where a key may be declared, checked or converted.
const PLUMBING: [&str; 3] =
    ["crates/config/src", "crates/cli/src/settings", "crates/gateway/src/settings"];

/// The files of the plumbing that name `key` as a word, tests aside.
fn files_with(key: &str) -> BTreeSet<PathBuf> {
    let root = shell::root();
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = PLUMBING.map(|folder| root.join(folder)).into();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with("tests.rs") && names(&path, key) {
                found.insert(path.strip_prefix(&root).unwrap().to_owned());
            }
        }
    }
    found
}

fn names(file: &Path, key: &str) -> bool {
    let text = fs::read_to_string(file).unwrap();
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| word == key)
}

/// A key without a rule of its own: its typed form, its conversion, and the settings that it becomes.
#[test]
fn a_key_stands_in_three_files() {
    for key in ["coalesce", "slow_start", "kv_weight"] {
        let files = files_with(key);
        assert!(!files.is_empty(), "`{key}` is no key any more; take another as a sample");
        assert!(files.len() <= 3, "`{key}` stands in {files:?}");
    }
}
