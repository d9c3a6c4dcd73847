//! Error shape: how a stream tells that it broke off.

use bytes::Bytes;
use overdraft_wire::dialect::{Dialect, Failure};
use overdraft_wire::{ApiError, sse};
use serde_json::Value;

/// The words in which a stream tells an error.
#[derive(Clone, Debug)]
pub(crate) enum ErrorShape {
    /// Those of chats and completions.
    Chat,
    /// Those of a dialect, with the request's name.
    Dialect(Dialect, Box<str>),
}

/// The number of a stream's first event.
const FIRST: u64 = 0;

impl ErrorShape {
    /// The event that tells an error of the gateway's; `number` is its own, where events are numbered.
    pub(crate) fn event(&self, error: &ApiError, number: u64) -> Bytes {
        match self {
            Self::Chat => sse::error_event(error).into(),
            Self::Dialect(dialect, request) => {
                dialect.error_event(&Failure::of(error), request, number).into()
            }
        }
    }

    /// The event that tells an error answer with that body, the first of its stream.
    pub(crate) fn event_of(&self, status: u16, body: &[u8]) -> Bytes {
        match self {
            Self::Chat => {
                let told = serde_json::from_slice::<Value>(body).ok();
                match told.filter(|told| told["error"].is_object()) {
                    Some(error) => format!("data: {error}\n\n").into(),
                    None => self.event(&no_stream(), FIRST),
                }
            }
            Self::Dialect(dialect, request) => {
                let failure = match status {
                    200..300 => Failure::of(&no_stream()),
                    status => Failure::read(status, body),
                };
                dialect.error_event(&failure, request, FIRST).into()
            }
        }
    }
}

fn no_stream() -> ApiError {
    ApiError::upstream("the worker's answer is no stream, and one was asked for".to_owned())
}
