//! Settings of cross-origin sharing: which pages of browsers may ask.

use std::time::Duration;

/// How long browsers remember where nothing is said.
const MAX_AGE: Duration = Duration::from_mins(10);

/// Which pages of browsers may ask for models and read the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsSettings {
    /// Origins of the pages as browsers send them; `*` stands for all. None: nothing is shared.
    pub origins: Vec<String>,
    /// How long a browser may remember the answer to its question beforehand.
    pub max_age: Duration,
}

impl Default for CorsSettings {
    fn default() -> Self {
        Self { origins: Vec::new(), max_age: MAX_AGE }
    }
}
