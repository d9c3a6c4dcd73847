//! Stream resume: how a stream that broke off goes on at another worker, and whether it may.
//!
//! The [`Ledger`] keeps what a client was told. When its worker dies, [`way`] chooses how the next one
//! is asked: by token ids, by text, or from the start; and the [`Splice`] says what of the second
//! answer is new. Where none is exact the stream ends with an error. The rules, numbered, are in
//! `docs/design/resume.md`.
//!
//! | subject                                  | file         |
//! |------------------------------------------|--------------|
//! | Limits, on or off                        | `settings.rs` |
//! | What a request asks that matters here    | `profile.rs` |
//! | What a worker can do                     | `ability.rs` |
//! | Why another worker is asked, and which   | `cause.rs`   |
//! | What the client was told                 | `ledger.rs`  |
//! | Special tokens that a stream leaves out  | `hidden_tokens.rs` |
//! | The way to go on                         | `way.rs`     |
//! | Comparison of a second answer            | `overlap.rs` |
//! | Stop strings over the seam               | `stops.rs`   |
//! | What of the second answer is told        | `splice.rs`  |

mod ability;
mod cause;
mod hidden_tokens;
mod ledger;
mod overlap;
mod profile;
mod settings;
mod splice;
mod stops;
#[cfg(test)]
mod tests;
mod way;

pub use self::ability::{Ability, Engine, Extra};
pub use self::cause::Cause;
pub use self::hidden_tokens::{Withheld, withheld};
pub use self::ledger::{Call, CallPart, LEDGER_BYTES_MAX, Ledger, Part, View};
pub use self::overlap::Diverged;
pub use self::profile::{Draws, Profile, PromptForm, Trait, Traits};
pub use self::settings::{Mode, ResumeSettings};
pub use self::splice::{Splice, Told};
pub use self::stops::{StopRules, Stops};
pub use self::way::{Closed, Refusal, Spent, Way, is_within, is_worth_waiting, way};
