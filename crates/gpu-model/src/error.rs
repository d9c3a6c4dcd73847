//! Profile errors: unknown names, unreadable files and invalid figures.

use std::fmt::Write as _;

/// A profile that cannot be found or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The name does not have the form of a profile name.
    #[error(
        "`{name}` is not the name of a profile; expected HARDWARE-tpN/MODEL-WEIGHTS, as in \
         `h100-tp2/llama-3-70b-fp8`"
    )]
    Malformed {
        /// What was asked for.
        name: String,
    },
    /// Nobody knows such a profile.
    #[error("`{name}` is not a known profile; {}", alike(.suggestions))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of those that are most alike, the likeliest first.
        suggestions: Vec<String>,
    },
    /// The weights are larger than what is left for them.
    #[error(
        "`{name}` is impossible: its weights take {:.1} GB of each GPU, {:.1} GB more than the \
         {:.1} GB left of its memory", gigabytes(*.weights), gigabytes(.weights - .room),
         gigabytes(*.room)
    )]
    TooLarge {
        /// What was asked for.
        name: String,
        /// Bytes of weights on one GPU.
        weights: f64,
        /// Bytes that one GPU has for weights, keys and values.
        room: f64,
    },
    /// A file cannot be read as profiles.
    #[error("{file}: {reason}")]
    File {
        /// Which file.
        file: String,
        /// What is wrong in it, and where.
        reason: String,
    },
}

impl ProfileError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::Unknown { .. } => {
                "`overdraft worker --simulate list` shows all profiles; `--profile FILE` adds your own"
            }
            Self::TooLarge { .. } => {
                "take more GPUs (`-tp2`), a smaller format (`fp8`, `int4`), or a smaller model"
            }
            Self::File { .. } => {
                "a file of profiles has [[hardware]], [[model]] and [[profile]] tables; \
                 docs/design/gpu-model.md names their fields"
            }
        }
    }
}

fn alike(suggestions: &[String]) -> String {
    let mut text = String::new();
    for (place, name) in suggestions.iter().enumerate() {
        let before = if place == 0 { "most alike: " } else { ", " };
        let _ = write!(text, "{before}`{name}`");
    }
    if text.is_empty() { "there are none like it".to_owned() } else { text }
}

/// Bytes in the unit that people say.
pub(crate) fn gigabytes(bytes: f64) -> f64 {
    bytes / 1e9
}
