//! API dialects: translators between Anthropic Messages, OpenAI Responses and chat completions, without I/O.
//!
//! One reader, two faces: a chat answer, streamed or whole, becomes `Step`s in which one item is open
//! at a time ([`steps`]); the events and the objects of both dialects are written from those steps, so that a
//! stream and a whole answer cannot disagree.
//!
//! | subject                                | file            |
//! |----------------------------------------|-----------------|
//! | JSON objects read member by member     | `fields.rs`     |
//! | Chat request as it is put together     | `chat.rs`       |
//! | Conversation: items to chat messages   | `conversation.rs` |
//! | Chat answer: chunks and whole ones     | `answer.rs`     |
//! | Tool call fragments                    | `calls.rs`      |
//! | Steps of an answer                     | `steps.rs`      |
//! | Translation of a stream and its errors | `stream.rs`, `failure.rs` |
//! | Each dialect                           | `messages/`, `responses/` |
//!
//! **Invariant:** an unknown field or block that changes the answer is carried or refused by name; what is
//! left out is told in [`Chat::left_out`].

mod answer;
mod calls;
mod chat;
mod conversation;
mod failure;
mod fields;
pub mod messages;
pub mod responses;
pub mod steps;
mod stream;
#[cfg(test)]
mod tests;

pub use self::answer::{ChatUsage, Finish};
pub use self::chat::Chat;
pub(crate) use self::failure::message_of;
pub use self::failure::{Failure, names_long_prompt};
pub use self::stream::{EventWriter, StreamTranslator, translate_whole};

/// The prompt of a request whose tokens are to be counted.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The model that was asked for, if one was.
    pub model: Option<String>,
    /// Images that were taken out of it.
    pub images: usize,
    /// What of the chat completion makes the prompt.
    pub chat: Chat,
}

/// An API that the gateway speaks beside chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Anthropic's `/v1/messages`.
    Messages,
    /// OpenAI's `/v1/responses`.
    Responses,
}

impl Dialect {
    /// The error object of this dialect: status and body.
    pub fn error(self, failure: &Failure, request_id: &str) -> (u16, Vec<u8>) {
        match self {
            Self::Messages => messages::error(failure, request_id),
            Self::Responses => responses::error(failure),
        }
    }

    /// The event of this dialect by which a stream tells that it failed; `number` is its own, where events are numbered.
    pub fn error_event(self, failure: &Failure, request_id: &str, number: u64) -> Vec<u8> {
        let data = match self {
            Self::Messages => messages::error(failure, request_id).1,
            Self::Responses => responses::error_event(failure, number),
        };
        [&b"event: error\ndata: "[..], &data, b"\n\n"].concat()
    }
}
