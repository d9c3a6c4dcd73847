//! Cascade: a small model answers first, and the target where that is not good enough.
//!
//! A request to a cascade is put to the draft where nothing speaks against it; what the draft says is held
//! back until it has been judged. What is refused, the target answers as if nothing had been. The rules are
//! in `docs/design/cascade.md`, "In the gateway"; every decision is the core's.
//!
//! | question                                        | file          |
//! |-------------------------------------------------|---------------|
//! | Does this request meet a draft?                 | `plan.rs`     |
//! | What is known of a cascade?                     | `state.rs`   |
//! | What is asked of draft and target?              | `rewrite.rs`      |
//! | How is a worker asked, and how listened?           | `call.rs`     |
//! | What was said, and how surely?                  | `draft_transcript.rs`   |
//! | Whose answer is given?                          | `answer.rs`   |
//! | Whose answer begins?                            | `driver.rs`   |
//! | May the target read the prompt meanwhile?       | `prefill.rs`  |
//! | What would the target have said?                | `verify.rs`   |
//! | How is it asked for that?                       | `score.rs`    |
//! | How does the answer go on?                      | `continuation.rs`     |
//! | How does it look to the client?                 | `response_writer.rs`, `flow.rs` |
//! | What did it cost?                               | `cost_accounting.rs`   |
//! | Was it as good?                                 | `shadow.rs`, `judge.rs`, `capture.rs`, `schema.rs` |
//! | How long did it take?                           | `wait.rs`     |
//! | What outlives a request, and a restart?         | `background.rs`, `persistence.rs` |
//!
//! **Invariant.** No text of a draft reaches a client before it was judged, none is taken back, and what
//! follows it continues by its tokens or not at all.

mod answer;
mod background;
mod call;
mod continuation;
mod cost_accounting;
mod driver;
mod flow;
mod judge;
mod layer;
mod persistence;
mod plan;
mod prefill;
mod prompt;
mod rewrite;
mod schema;
mod score;
mod state;

mod capture;
mod draft_transcript;
mod response_writer;
pub(crate) mod shadow;
mod verify;
mod wait;

pub(crate) use self::answer::answer;
pub(crate) use self::background::{keep, set_gauges, switched_off};
pub(crate) use self::layer::CascadeLayer;
pub(crate) use self::persistence::{remember, save};
pub(crate) use self::plan::consider;
