//! Tokenizer errors: why a model's tokenizer cannot be used, and what to do about it.

/// Bytes of one token's text at most. Preparing pieces with scores takes the square of it.
pub(super) const TOKEN_BYTES_MAX: usize = 1024;

/// A description of a tokenizer cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The vocabulary is of a kind unknown here.
    #[error("the tokenizer model is `{model}`; expected `gpt2` or `llama`")]
    UnknownModel {
        /// Its kind.
        model: String,
    },
    /// The text is cut into words in a way unknown here.
    #[error("the pre-tokenizer is `{pre}`; known are {known}")]
    UnknownPreTokenizer {
        /// Its name.
        pre: String,
        /// Those that would do.
        known: String,
    },
    /// A token is longer than any real one.
    #[error("a token's text takes `{bytes}` bytes; expected at most {TOKEN_BYTES_MAX}")]
    TokenTooLong {
        /// Bytes of its text.
        bytes: usize,
    },
    /// The entries contradict each other.
    #[error("the tokenizer is damaged: {reason}")]
    Damaged {
        /// Which do.
        reason: String,
    },
}

impl TokenizerError {
    /// What the operator of the model can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownModel { .. } | Self::UnknownPreTokenizer { .. } => {
                "convert the model again with a current converter, or use a model of another family"
            }
            Self::TokenTooLong { .. } | Self::Damaged { .. } => {
                "download or convert the file again"
            }
        }
    }

    pub(super) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged { reason: reason.into() }
    }
}
