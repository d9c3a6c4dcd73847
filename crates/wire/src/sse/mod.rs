//! Server-sent events: bytes of any chunking to whole events, and values to events.
//!
//! The reader keeps every event verbatim, so that a relay changes nothing; what is inside is looked at
//! only when asked. **Invariant:** the same bytes give the same events however they are cut, and the
//! events' bytes joined are the bytes that came in.

mod splitter;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::splitter::{Ending, Event, EventTooLarge, Splitter};
use crate::error::ApiError;

/// The event that ends an OpenAI stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// An event whose data is `value` as JSON.
pub fn data(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_data(&mut out, value);
    out
}

/// Appends an event whose data is `value` as JSON, which is a single line.
pub fn write_data(out: &mut Vec<u8>, value: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *out, value).expect("answers have string keys and finite numbers");
    out.extend_from_slice(b"\n\n");
}

/// The event that tells an error within a stream; clients raise it as they would a status.
pub fn error_event(error: &ApiError) -> Vec<u8> {
    data(error)
}

/// A comment, which clients ignore: keeps an idle connection alive.
pub fn comment(text: &str) -> Vec<u8> {
    debug_assert!(!text.contains(['\n', '\r']), "a comment is a single line");
    format!(": {text}\n\n").into_bytes()
}
