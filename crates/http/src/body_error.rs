//! Body errors: why a request's body could not be read, and what the client is told.

use std::time::Duration;

use overdraft_wire::{ApiError, ErrorKind};

/// Why a request's body could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is larger than the listener takes.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// It did not arrive in time.
    #[error("the body did not arrive within {limit:?}")]
    TimedOut {
        /// The bound.
        limit: Duration,
    },
    /// Other bodies have the memory.
    #[error("the server's memory for request bodies is in use; send the request again in a moment")]
    NoRoom,
    /// It is not encoded as its head says.
    #[error("the body is not whole and valid {coding}: {error}")]
    Undecodable {
        /// The coding's name.
        coding: &'static str,
        /// What is wrong.
        error: std::io::Error,
    },
    /// It decodes to too many times its own size.
    #[error("the body decodes to more than {ratio} times its size; send it as it is")]
    TooDense {
        /// The bound.
        ratio: u64,
    },
    /// The client went away, or its framing is wrong.
    #[error("the body broke off: {0}")]
    Broken(hyper::Error),
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { limit } => Self::request_too_large(limit),
            BodyError::TimedOut { .. } => Self::new(ErrorKind::RequestTimeout, error.to_string()),
            BodyError::NoRoom => Self::overloaded(error.to_string()),
            BodyError::TooDense { .. } => Self::new(ErrorKind::RequestTooLarge, error.to_string()),
            BodyError::Undecodable { .. } | BodyError::Broken(_) => {
                Self::new(ErrorKind::InvalidRequest, error.to_string())
            }
        }
    }
}
