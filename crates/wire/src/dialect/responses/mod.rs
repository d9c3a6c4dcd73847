//! OpenAI Responses: `/v1/responses` over chat completions.
//!
//! | subject                                     | file         |
//! |---------------------------------------------|--------------|
//! | Request fields                              | `request.rs` |
//! | Input items as chat messages                | `items.rs`   |
//! | Input items as they are kept                | `kept_item.rs` |
//! | Tools, their names there and back           | `tools.rs`   |
//! | What the object repeats of the request      | `echo.rs`    |
//! | The answer's object and its items           | `object.rs`  |
//! | The answer's events                         | `events.rs`  |
//! | Input of freeform tools                     | `custom.rs`  |
//! | Conversations made shorter                  | `compaction.rs` |
//! | Errors                                      | `error.rs`   |

mod compaction;
mod custom;
mod echo;
mod error;
mod events;
mod items;
mod kept_item;
mod object;
mod request;
mod tools;

pub use self::compaction::{Compaction, Summary};
pub use self::echo::{Course, Keeping};
pub use self::error::{error, error_event};
pub use self::events::{Identity, Writer, object};
pub use self::request::{Request, Translated};

/// Seals thoughts and summaries for clients that keep the conversation themselves.
pub trait Seal: Send + Sync + std::fmt::Debug {
    /// A text that nobody else can read; none where it cannot be sealed.
    fn seal(&self, text: &str) -> Option<String>;
    /// The text of a seal of ours; none of anybody else's.
    fn open(&self, sealed: &str) -> Option<String>;
}
