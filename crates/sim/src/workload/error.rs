//! Trace errors: the file, line and reason of a workload that cannot be read.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum characters of a faulty line that are shown.
const SHOWN_MAX: usize = 60;

/// A workload cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// There is no such file, or it cannot be read.
    #[error("`{}` cannot be read: {error}; expected {expected}", file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
        /// What should be there.
        expected: &'static str,
    },
    /// A line is not what the format says.
    #[error("`{}` line {line}: {fault}", file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Which line, the first being 1.
        line: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A file without a single request.
    #[error("`{}` has no requests; expected {expected}", file.display())]
    Empty {
        /// Which.
        file: PathBuf,
        /// What should be there.
        expected: &'static str,
    },
}

/// What was found, and what was expected in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` {wrong}; expected {expected}")]
pub struct Fault {
    found: String,
    wrong: String,
    expected: String,
}

impl Fault {
    pub(super) fn new(found: &str, wrong: impl Into<String>, expected: impl Into<String>) -> Self {
        let mut shown: String = found.trim().chars().take(SHOWN_MAX).collect();
        if shown.len() < found.trim().len() {
            shown.push('…');
        }
        Self { found: shown, wrong: wrong.into(), expected: expected.into() }
    }

    pub(super) fn at(self, file: &Path, line: u64) -> WorkloadError {
        WorkloadError::Line { file: file.to_owned(), line, fault: self }
    }
}
