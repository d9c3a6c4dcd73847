//! Answers of workers: one reader of chunks, and the state machine that proves an answer whole.
//!
//! The relay, the response cache, cascades and the load tool read answers here, of chats and of
//! completions alike. **Invariant:** an answer that was cut is never told as a whole one: a stream is
//! whole only once each of its choices has finished, and a whole document only once it was read to
//! its last brace.

mod chunk;
mod dialect;
mod document;
mod fingerprint;
mod stream;
#[cfg(test)]
mod tests;
mod tokens;

pub use self::chunk::{AnswerChunk, ChunkChoice, Finish, NotAnAnswer, UsageTold};
pub use self::document::{Document, DocumentFault, LongDocument};
pub use self::fingerprint::{names_fingerprint, with_fingerprint};
pub use self::stream::{Heard, StreamFault, StreamState};
pub use self::tokens::{TokenChoice, TokenChunk, TokenTold};
