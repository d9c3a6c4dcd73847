//! Source location of a value: file, line and column, or an environment variable.
//!
//! Every error names its place. Lines and columns are counted in characters from one, as editors
//! count them.

use std::path::{Path, PathBuf};

use crate::quoting::{REDACTED, begins_with_name, blotted};

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
    quoted: Quoted,
}

/// Which lines a fault may quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoted {
    /// All, with secrets blotted out.
    All,
    /// Of those, the ones that begin with the name of a value: any other may be a key.
    Named,
}

impl Source {
    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text, quoted: Quoted::All }
    }

    /// The text of a file of keys.
    pub(crate) fn of_keys(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text, quoted: Quoted::Named }
    }

    /// The line that a spot is in, with secrets blotted out.
    pub(crate) fn line(&self, spot: Spot) -> String {
        let line = self.text.lines().nth(spot.line.saturating_sub(1)).unwrap_or_default();
        let line = line.trim_end().replace('\t', " ");
        if self.quoted == Quoted::Named && !begins_with_name(&line) {
            return REDACTED.to_owned();
        }
        if self.is_bare_key(spot) {
            return format!("{}- {REDACTED}", &line[..line.len() - line.trim_start().len()]);
        }
        blotted(&line)
    }

    /// Whether a line is an item without a name of the list `keys`: a key where a table should be.
    fn is_bare_key(&self, spot: Spot) -> bool {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let above: Vec<&str> = self.text.lines().take(spot.line).collect();
        let Some((own, above)) = above.split_last() else { return false };
        if !own.trim_start().starts_with('-') || own.contains(": ") {
            return false;
        }
        let is_head = |line: &&&str| {
            let item = line.trim_start().starts_with('-');
            !line.trim().is_empty() && !item && indent(line) <= indent(own)
        };
        let head = above.iter().rev().find(is_head);
        head.is_some_and(|head| head.trim_start().starts_with("keys:"))
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
