//! Settings of discovery by a file that names workers.

use std::path::PathBuf;
use std::time::Duration;

use super::Each;

/// A file that names workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Where it is.
    pub path: PathBuf,
    /// From one look at it to the next.
    pub interval: Duration,
    /// What its workers have in common.
    pub each: Each,
}

impl FileSettings {
    /// The file at `path`, looked at every second.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), interval: Duration::from_secs(1), each: Each::default() }
    }
}
