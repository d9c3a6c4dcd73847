//! Rules about the shape of code and pages that neither rustfmt nor clippy can see.
//!
//! Of code: which crate and which file may name which, how long a file and a function may be, and that
//! arguments are not packed. Every file says what it is for, `unsafe` stays in its room, and nothing unfinished is
//! left. A rule cited at the code stands in the design note it names.
//!
//! Of pages: they link to what is there and show commands that exist, and the HTTP reference has the names of the
//! code. Sentences of pages, headers and help texts are short and name who is meant.

mod arguments;
mod http;
mod imports;
mod layers;
mod pages;
mod prose;
mod shape;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

pub(crate) use self::http::PAGE as HTTP_PAGE;
use crate::shell;

/// Checks the whole tree and lists every fault before failing.
pub(crate) fn run() -> Result<()> {
    let root = shell::root();
    let mut faults = Vec::new();
    layers::check(&root, &mut faults)?;
    let files = rust_files(&root);
    imports::check(&root, &files, &mut faults)?;
    arguments::check(&root, &files, &mut faults)?;
    pages::check(&root, &mut faults)?;
    prose::check(&root, &pages::pages(&root), &files, &mut faults)?;
    http::check(&root, &files, &mut faults)?;
    for file in &files {
        let text = fs::read_to_string(file)?;
        let name = file.strip_prefix(&root).unwrap_or(file);
        faults.extend(shape::faults(name, &text));
        faults.extend(missing_rules(&root, name, &text));
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults in the shape of code and pages", faults.len());
    }
    Ok(())
}

/// A citation such as `docs/design/batch.md#r3` must lead to a line that starts with `R3`.
fn missing_rules(root: &Path, file: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for cited in text.match_indices("docs/design/").map(|(at, _)| &text[at..]) {
        let end = cited
            .find(|c: char| !(c.is_ascii_alphanumeric() || "/.#_-".contains(c)))
            .unwrap_or(cited.len());
        let Some((note, rule)) = cited[..end].trim_end_matches('.').split_once("#r") else {
            continue;
        };
        let wanted = format!("R{rule} ");
        let stands = fs::read_to_string(root.join(note)).is_ok_and(|note| {
            note.lines()
                .any(|line| line.trim_start_matches(['-', '*', '#', ' ']).starts_with(&wanted))
        });
        if !stands {
            faults.push(format!("{}: cites {note}#r{rule}, which is not there", file.display()));
        }
    }
    faults
}

/// Our own Rust files, in order; not what is built or downloaded.
fn rust_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> =
        ["crates", "xtask", "tests", "benches", "fuzz"].map(|room| root.join(room)).into();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
