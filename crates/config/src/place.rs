//! Source location of a value: file, line and column, or an environment variable.
//!
//! Every error names its place. Lines and columns are counted in characters from one, as editors
//! count them.

use std::path::{Path, PathBuf};

use crate::quoting::{REDACTED, begins_with_name, blotted, cut, guarded};

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

/// A character of the file, in the order of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// From one.
    pub(crate) line: usize,
    /// In characters, from one.
    pub(crate) column: usize,
}

impl Position {
    /// Behind all text.
    pub(crate) const END: Self = Self { line: usize::MAX, column: usize::MAX };
}

/// A part of the file that is a secret: from behind its key to where the next value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) begin: Position,
    pub(crate) end: Position,
}

impl Stretch {
    fn holds(&self, spot: Spot) -> bool {
        let at = Position { line: spot.line, column: spot.column };
        self.begin <= at && at < self.end
    }

    /// Whether a line goes on with a secret that began above it.
    fn covers(&self, number: usize, line: &str) -> bool {
        let is_below = self.begin.line < number;
        // On its last line, more than blanks and the marks of lists and tables stand before the next value.
        let mut before = line.chars().take(self.end.column.saturating_sub(1));
        let is_end = number == self.end.line && before.any(|letter| !" -[{?".contains(letter));
        is_below && (number < self.end.line || is_end)
    }
}

/// The text of a configuration file and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    quoted: Quoted,
    /// The parts that are secrets; none before the text has been read, and their places are not known.
    secrets: Option<Vec<Stretch>>,
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
        Self { path: path.to_owned(), text, quoted: Quoted::All, secrets: None }
    }

    /// The text of a file of keys.
    pub(crate) fn of_keys(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text, quoted: Quoted::Named, secrets: None }
    }

    /// The same text, now that it has been read and the places of its secrets are known.
    pub(crate) fn hiding(self, secrets: Vec<Stretch>) -> Self {
        Self { secrets: Some(secrets), ..self }
    }

    /// Whether a secret stands at a spot.
    pub(crate) fn is_secret(&self, spot: Spot) -> bool {
        self.secrets.iter().flatten().any(|secret| secret.holds(spot))
    }

    /// The line that a spot is in, with secrets blotted out, and all that follows from column `until` on.
    pub(crate) fn line(&self, spot: Spot, until: Option<usize>) -> String {
        let above = spot.line.saturating_sub(1);
        let line = self.text.lines().nth(above).unwrap_or_default();
        let line = line.trim_end().replace('\t', " ");
        if self.quoted == Quoted::Named && !begins_with_name(&line) {
            return REDACTED.to_owned();
        }
        let Some(secrets) = &self.secrets else {
            let above: Vec<&str> = self.text.lines().take(above).collect();
            return guarded(&line, &above);
        };
        if secrets.iter().any(|secret| secret.covers(spot.line, &line)) {
            return REDACTED.to_owned();
        }
        let begins = secrets.iter().filter(|secret| secret.begin.line == spot.line);
        let first = begins.map(|secret| secret.begin.column).chain(until).min();
        blotted(&first.map_or_else(|| line.clone(), |column| cut(&line, column)))
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
