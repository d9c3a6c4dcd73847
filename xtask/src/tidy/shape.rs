//! The shape of one file: its header, its length, its longest function, what must not be in it.

use std::path::Path;

/// A file longer than this, tests aside, is asking to be split.
const FILE_LINES_MAX: usize = 500;

/// Tests may tell longer stories, but not endless ones.
const TEST_FILE_LINES_MAX: usize = 1_000;

/// A function longer than this does two things.
const FUNCTION_LINES_MAX: usize = 70;

/// What marks something unfinished or switched off. Split so that this file passes its own check.
const BANNED: &[(&str, &str)] = &[
    (concat!("TO", "DO"), "finish it or open an issue"),
    (concat!("FIX", "ME"), "finish it or open an issue"),
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it"),
    (concat!("#[ign", "ore"), "a test that does not run protects nothing"),
];

/// Everything wrong with the shape of one file; `name` is relative to the repository.
pub(super) fn faults(name: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let shown = name.display();
    if !text.starts_with("//!") {
        faults.push(format!("{shown}: say what this file is for in a `//!` header"));
    }
    let bound = if is_test(name) { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX };
    let lines = text.lines().count();
    if bound < lines {
        faults.push(format!("{shown}: {lines} lines, at most {bound}"));
    }
    for (word, mend) in BANNED {
        if text.contains(word) {
            faults.push(format!("{shown}: `{word}`: {mend}"));
        }
    }
    if !name.starts_with("crates/kernels") && has_unsafe(text) {
        faults.push(format!("{shown}: `unsafe` is allowed in crates/kernels only"));
    }
    for (function, length) in functions(text) {
        if FUNCTION_LINES_MAX < length {
            faults.push(format!(
                "{shown}: `{function}` has {length} lines, at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
    faults
}

/// Whether a file holds tests only.
pub(super) fn is_test(name: &Path) -> bool {
    name.iter().any(|part| part == "tests") || name.ends_with("tests.rs")
}

fn has_unsafe(text: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| {
        !line.starts_with("//")
            && (line.contains(concat!("unsafe", " {")) || line.contains(concat!("unsafe", " fn")))
    })
}

/// Every function with its length in lines, signature and braces included. Relies on rustfmt: a
/// function ends at the first `}` that stands as far to the right as its signature does.
pub(super) fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let body = lines[start..].iter().position(|line| **line == closing);
        let declared = lines[start..].iter().position(|line| line.ends_with(';'));
        match (body, declared) {
            (Some(end), None) => found.push((name, end + 1)),
            (Some(end), Some(first))
                if lines[start..=start + first].iter().any(|l| l.ends_with('{')) =>
            {
                found.push((name, end + 1));
            }
            _ => {}
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    let words =
        ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe ", "extern \"C\" "];
    let mut rest = line;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    let name = rest.strip_prefix("fn ")?;
    Some(name.split(['(', '<']).next().unwrap_or(name).to_owned())
}
