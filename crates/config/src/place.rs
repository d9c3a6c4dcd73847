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

/// Where each line of a text begins, so that finding a place does not mean reading to it.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    begins: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, begins: std::iter::once(0).chain(newlines).collect() }
    }

    /// The stretch from byte `from` to byte `to`, cut at the end of its first line.
    pub(crate) fn spot(&self, from: usize, to: usize) -> Spot {
        let line = self.begins.partition_point(|begin| *begin <= from).max(1);
        let begin = self.begins[line - 1];
        let end = self.begins.get(line).map_or(self.text.len(), |next| next - 1);
        let characters = |from, to| self.text.get(from..to).unwrap_or_default().chars().count();
        let column = characters(begin, from.min(end)) + 1;
        let width = characters(from.min(end), to.clamp(from.min(end), end)).max(1);
        Spot { line, column, width }
    }
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
