//! Configuration errors: what is wrong, at which line, and how to fix it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::node::{self, Step};
use crate::place::{Origin, Source, Spot};
use crate::quoting::{self, REDACTED};
use crate::secrets;
use crate::yaml::{DEPTH_MAX, NODES_MAX};

/// Maximum faults that one check reports; more would bury the first.
pub const FAULTS_MAX: usize = 32;

/// One fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    spot: Option<(Spot, String)>,
    variable: Option<String>,
    message: String,
    expected: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(source: &Source, origin: &Origin, wrong: Wrong) -> Self {
        Self::quoting(source, origin, KeyQuote::All, wrong)
    }

    /// A fault that quotes no more than that of its line.
    pub(crate) fn quoting(
        source: &Source,
        origin: &Origin,
        quoted: KeyQuote,
        wrong: Wrong,
    ) -> Self {
        let (spot, variable) = match origin {
            Origin::Spot(spot) => {
                let until = match quoted {
                    KeyQuote::All => None,
                    KeyQuote::Name => Some(spot.column.saturating_add(spot.width)),
                    KeyQuote::Nothing => Some(spot.column),
                };
                (Some((*spot, source.line(*spot, until))), None)
            }
            Origin::Variable(name) => (None, Some(name.clone())),
            Origin::Whole => (None, None),
        };
        Self { spot, variable, ..Self::of_file(&source.path, wrong) }
    }

    /// A fault of the file as a whole.
    pub(crate) fn of_file(file: &Path, wrong: Wrong) -> Self {
        let Wrong { message, expected } = wrong;
        let message = quoting::sentence(&message);
        Self { file: file.to_owned(), spot: None, variable: None, message, expected }
    }

    /// The file, as it was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line, from one; none when the fault is not in one.
    pub fn line(&self) -> Option<usize> {
        self.spot.as_ref().map(|(spot, _)| spot.line)
    }

    /// The column in characters, from one.
    pub fn column(&self) -> Option<usize> {
        self.spot.as_ref().map(|(spot, _)| spot.column)
    }

    /// The environment variable the value came from, when it did not come from the file.
    pub fn variable(&self) -> Option<&str> {
        self.variable.as_deref()
    }

    /// What is wrong, in one sentence without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What was expected, or how to mend it.
    pub fn expected(&self) -> Option<&str> {
        self.expected.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, &self.spot) {
            (Some(variable), _) => write!(f, "{variable}: {}", self.message)?,
            (None, Some((spot, _))) => {
                let (line, column) = (spot.line, spot.column);
                write!(f, "{}:{line}:{column}: {}", self.file.display(), self.message)?;
            }
            (None, None) => write!(f, "{}: {}", self.file.display(), self.message)?,
        }
        let number = self.line().map(|line| line.to_string()).unwrap_or_default();
        let margin = " ".repeat(number.len());
        if let Some((spot, text)) = &self.spot {
            let shift = " ".repeat(spot.column.saturating_sub(1));
            let room = text.chars().count().saturating_sub(spot.column - 1).max(1);
            let carets = "^".repeat(spot.width.min(room));
            write!(f, "\n{margin} |\n{number} | {text}\n{margin} | {shift}{carets}")?;
        }
        if let Some(expected) = &self.expected {
            write!(f, "\n{margin} = {expected}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The faults in the order they were found; at most [`FAULTS_MAX`].
    pub(crate) fn new(mut faults: Vec<ConfigError>) -> Self {
        debug_assert!(!faults.is_empty(), "a configuration without faults is not an error");
        faults.truncate(FAULTS_MAX);
        Self(faults)
    }

    /// Each fault.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// The first fault in one line, for a log: the place and the sentence.
    pub fn summary(&self) -> String {
        let first = self.0.first().map(ToString::to_string).unwrap_or_default();
        let line = first.lines().next().unwrap_or_default().to_owned();
        match self.0.len() {
            0 | 1 => line,
            count => format!("{line} (and {} more)", count - 1),
        }
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(fault: ConfigError) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{fault}")?;
        }
        Ok(())
    }
}

/// What a fault may quote of the line of a key, beside what is a secret by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyQuote {
    All,
    /// The name, and not its value.
    Name,
    /// Not even the name.
    Nothing,
}

/// A sentence about a fault, and what was expected instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
}

impl Wrong {
    pub(crate) fn new(message: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { message: message.into(), expected: Some(expected.into()) }
    }

    /// A sentence from elsewhere, perhaps with what was expected behind a semicolon.
    pub(crate) fn said(text: &str) -> Self {
        // A password may hold a semicolon as well.
        let text = quoting::sentence(text);
        match text.split_once("; ") {
            Some((message, expected)) => Self::new(message, expected),
            None => Self { message: text, expected: None },
        }
    }

    /// The same without a part of what was written.
    pub(crate) fn without(self, part: &str) -> Self {
        Self { message: self.message.replace(part, "${…}"), ..self }
    }

    /// More values than a configuration has, or deeper ones.
    pub(crate) fn too_large() -> Self {
        Self::new(
            "the file grows too large when it is read",
            format!(
                "expected at most {NODES_MAX} values, {DEPTH_MAX} deep; anchors count each time"
            ),
        )
    }

    /// A key that was given already.
    pub(crate) fn twice(key: &str) -> Self {
        Self::new(format!("the key `{key}` stands twice in one table"), "expected it once")
    }
}

/// Why a node cannot be read as what it is asked to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    UnknownKey {
        found: String,
        known: &'static [&'static str],
    },
    UnknownWord {
        found: String,
        known: &'static [&'static str],
    },
    Unfit {
        found: String,
        expected: String,
    },
    Missing {
        key: &'static str,
    },
    /// A sentence of the type's own, perhaps with `; expected …` behind it.
    Said(String),
}

impl Unread {
    /// What may be quoted of the line: the value of an unknown key is a secret where its name may be that of one.
    pub(crate) fn quoted(&self, path: &[Step]) -> KeyQuote {
        let Self::UnknownKey { found, known } = self else { return KeyQuote::All };
        let may_be_secret = secrets::leads_to_secret(path)
            && nearest(found, known).is_none_or(|meant| {
                let meant: Vec<Step> = path.iter().cloned().chain([Step::from(meant)]).collect();
                secrets::is_secret(&meant) || secrets::leads_to_secret(&meant)
            });
        // In a list of keys, what is like no name of ours may be a key itself.
        let is_key = path.first() == Some(&Step::from("keys"))
            && !found.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
        match (may_be_secret, is_key) {
            (true, true) => KeyQuote::Nothing,
            (true, false) => KeyQuote::Name,
            (false, _) => KeyQuote::All,
        }
    }

    /// As told to a person; `path` leads to the value, or for an unknown key to its table.
    pub(crate) fn told(&self, path: &[Step]) -> Wrong {
        let value = node::shown(path);
        let subject = if value.is_empty() { "the file".to_owned() } else { format!("`{value}`") };
        match self {
            Self::UnknownKey { found, known } => {
                let room = if value.is_empty() { String::new() } else { format!(" in `{value}`") };
                let meant = did_you_mean(found, known);
                let name = match self.quoted(path) {
                    KeyQuote::Nothing => REDACTED.to_owned(),
                    KeyQuote::All | KeyQuote::Name => format!("`{found}`"),
                };
                Wrong::new(format!("unknown key {name}{room}{meant}"), one_of(known))
            }
            Self::UnknownWord { found, known } => {
                let meant = did_you_mean(found, known);
                Wrong::new(format!("{subject} is `{found}`{meant}"), one_of(known))
            }
            Self::Unfit { found, expected } => {
                let found = if may_be_secret(path, found) { REDACTED } else { found };
                Wrong::new(format!("{subject} is {found}"), format!("expected {expected}"))
            }
            Self::Missing { key } => {
                Wrong::new(format!("{subject} has no `{key}`"), format!("add the key `{key}`"))
            }
            Self::Said(text) => {
                let wrong = Wrong::said(text);
                Wrong { message: format!("{subject}: {}", wrong.message), ..wrong }
            }
        }
    }
}

/// Whether what was found is a secret, or a scalar where the table or the list belongs that holds one.
fn may_be_secret(path: &[Step], found: &str) -> bool {
    // Values stand between backticks; a list or a table is only called one.
    secrets::is_secret(path) || found.starts_with('`') && secrets::leads_to_secret(path)
}

fn one_of(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "expected nothing here".to_owned(),
        [only] => format!("expected {only}"),
        _ => format!("expected one of {}", quoted.join(", ")),
    }
}

/// `; did you mean …?` when one of `known` is close to what was written.
pub(crate) fn did_you_mean<T: AsRef<str>>(found: &str, known: &[T]) -> String {
    nearest(found, known).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// That of `known` which was probably meant.
fn nearest<'a, T: AsRef<str>>(found: &str, known: &'a [T]) -> Option<&'a str> {
    let written = found.to_lowercase().replace('-', "_");
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let distance = |word: &str| strsim::damerau_levenshtein(&written, &plain(word));
    let nearest = known.iter().map(AsRef::as_ref).min_by_key(|word| distance(word));
    // A third of the letters wrong is a slip; more is another word.
    let slip = (written.chars().count() / 3).max(1);
    nearest.filter(|word| distance(word) <= slip)
}
