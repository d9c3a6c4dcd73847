//! Cascade: a small model answers first, and the target where that is not good enough.
//!
//! A request to a cascade goes to the draft unless an exclusion applies; the draft's answer is held
//! back until it has been judged. If it is refused, the target answers as if there had been no
//! draft. The rules are in `docs/design/cascade.md`, "In the gateway"; every decision is the
//! core's.
//!
//! | subject                               | file                                               |
//! |---------------------------------------|----------------------------------------------------|
//! | Plan: whether a request meets a draft | `plan.rs`                                          |
//! | Preview: whom an explanation tells of | `preview.rs`                                       |
//! | State of a cascade                    | `state.rs`                                         |
//! | Protocol handle: events and actions   | `protocol.rs`                                      |
//! | Request rewriting                     | `rewrite.rs`                                       |
//! | Calls to workers                      | `call.rs`                                          |
//! | Draft transcript                      | `draft_transcript.rs`                              |
//! | Answer by draft or target             | `answer.rs`                                        |
//! | Driver until an answer begins         | `driver.rs`                                        |
//! | Speculative prefill at the target     | `prefill.rs`                                       |
//! | Draft verification                    | `verify.rs`                                        |
//! | Draft scoring                         | `score.rs`                                         |
//! | Continuation of an answer             | `continuation.rs`                                  |
//! | Response writing                      | `response_writer.rs`, `flow.rs`                    |
//! | Cost accounting                       | `cost_accounting.rs`                               |
//! | Shadow comparisons and their judges   | `shadow.rs`, `judge.rs`, `capture.rs`, `schema.rs` |
//! | Background tasks and persistence      | `background.rs`, `persistence.rs`                  |
//! | What the dashboard shows of them      | `view.rs`                                          |
//!
//! **Invariant.** No text of a draft reaches a client before it was judged, none is revoked, and
//! the target continues it by its token ids or not at all.

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
mod preview;
mod prompt;
mod protocol;
mod rewrite;
mod schema;
mod score;
mod state;
mod view;

mod capture;
mod draft_transcript;
mod response_writer;
pub(crate) mod shadow;
mod verify;

pub(crate) use self::answer::answer;
pub(crate) use self::background::{keep, set_gauges, switched_off};
pub(crate) use self::layer::CascadeLayer;
pub(crate) use self::persistence::{remember, save};
pub(crate) use self::plan::consider;
pub(crate) use self::preview::{Preview, preview};
pub(crate) use self::view::rows;
