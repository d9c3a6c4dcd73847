//! Anthropic Messages: `/v1/messages` and `/v1/messages/count_tokens` over chat completions.
//!
//! | subject                                  | file          |
//! |------------------------------------------|---------------|
//! | Request fields                           | `request.rs`  |
//! | Turns and their content blocks           | `blocks.rs`   |
//! | Tools and the choice among them          | `tools.rs`    |
//! | The answer's object                      | `object.rs`   |
//! | The answer's events                      | `events.rs`   |
//! | Errors                                   | `error.rs`    |

mod blocks;
mod error;
mod events;
mod object;
mod request;
mod tools;

pub use self::error::error;
pub use self::events::Writer;
pub use self::object::object;
pub use self::request::{Request, prompt, translate};

/// Who answers, as the client knows it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The message's id.
    pub id: String,
    /// The model that was asked for; the worker's own name where none was.
    pub model: Option<String>,
}

/// What of an answer its client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// All of it, the thoughts as blocks of their own.
    All,
    /// All but the thoughts, which count as output all the same. A client that has not asked for any reads its first
    /// block as the text.
    ButThoughts,
    /// Nothing: with `max_tokens` 0 a client wants its prompt in the worker's cache, and no answer.
    Nothing,
}
