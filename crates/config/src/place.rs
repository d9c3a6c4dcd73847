//! Where does a value come from: which file, line and column, or which environment variable?
//!
//! A fault is only half told without its place. Places are kept as lines and columns, counted in
//! characters from one, because that is what editors and people count.

use std::path::{Path, PathBuf};

/// Keys whose values are never shown, neither in a view nor in a quoted line.
pub(crate) const SECRET_KEYS: &[&str] = &["token"];

/// What stands for a secret.
pub(crate) const REDACTED: &str = "(redacted)";

/// A stretch of one line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// From one.
    pub(crate) line: usize,
    /// In characters, from one.
    pub(crate) column: usize,
    /// In characters.
    pub(crate) width: usize,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the file.
    Spot(Spot),
    /// In this environment variable.
    Variable(String),
    /// Nowhere in particular: the file as a whole.
    Whole,
}

/// The text of a configuration file and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text }
    }

    /// The line that a spot is in, with secrets blotted out.
    pub(crate) fn line(&self, spot: Spot) -> String {
        let line = self.text.lines().nth(spot.line.saturating_sub(1)).unwrap_or_default();
        let line = line.trim_end().replace('\t', " ");
        blotted(&line)
    }
}

/// The stretch from byte `from` to byte `to`, cut at the end of its first line.
pub(crate) fn spot(text: &str, from: usize, to: usize) -> Spot {
    let from = floor(text, from);
    let before = &text[..from];
    let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let column = text[begin..from].chars().count() + 1;
    let covered = &text[from..floor(text, to.max(from))];
    let width = covered.lines().next().unwrap_or_default().chars().count();
    Spot { line, column, width: width.max(1) }
}

/// The largest character boundary that is not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Hides what follows a key that holds a secret.
fn blotted(line: &str) -> String {
    for key in SECRET_KEYS {
        let Some(at) = line.find(key) else { continue };
        let (head, rest) = line.split_at(at + key.len());
        let gap = rest.len() - rest.trim_start_matches([' ', '"', '\'']).len();
        if rest[gap..].starts_with([':', '=']) {
            return format!("{head}{} {REDACTED}", &rest[..=gap]);
        }
    }
    without_password(line)
}

/// Hides what stands between `://` and `@`.
fn without_password(line: &str) -> String {
    let Some((head, rest)) = line.split_once("://") else { return line.to_owned() };
    let end = rest.find(['/', ' ', '"', '\'', ',']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{head}://{REDACTED}{}", &rest[at..]),
        None => line.to_owned(),
    }
}
