//! Model cascade: decides whether a small model's draft may replace the large model's answer.
//!
//! The draft model answers first. A classifier turns the draft's confidence into the chance that
//! its answer is not worse than the target's, and a threshold on that chance keeps the loss within
//! what is allowed (conformal risk control). Labels come from shadow requests with known sampling
//! chances. Everything here is integer arithmetic and a function of its inputs; the rules,
//! numbered, are in `docs/design/cascade.md`.
//!
//! | subject                                       | file                   |
//! |-----------------------------------------------|------------------------|
//! | Fixed-point chances and weights               | `probability.rs`       |
//! | Request classes                               | `class.rs`             |
//! | Statistics of the draft's confidence          | `evidence.rs`          |
//! | Feature vector of a draft                     | `features.rs`          |
//! | Draft classifier                              | `scorer.rs`            |
//! | Logistic regression                           | `logistic.rs`          |
//! | Random forest                                 | `forest.rs`            |
//! | Acceptance threshold (conformal risk control) | `threshold.rs`         |
//! | Shadow sampling                               | `shadow.rs`            |
//! | Kill switch                                   | `kill_switch.rs`       |
//! | Expected value of asking the draft first      | `payback.rs`           |
//! | Moving averages of latency                    | `latency.rs`           |
//! | Quality estimate                              | `quality.rs`           |
//! | Early termination of drafts                   | `early_termination.rs` |
//! | Streaming release                             | `streaming_release.rs` |
//! | Draft verification                            | `verify.rs`            |
//! | Scoring APIs                                  | `scoring_api.rs`       |
//! | Exclusions                                    | `exclusion.rs`         |
//! | Tokenizer parity                              | `parity.rs`            |
//! | Label journal between gateways                | `label_journal.rs`     |
//! | A/B comparison                                | `compare.rs`           |
//! | Report for metrics and operators              | `report.rs`            |
//! | Modes: off, gate, verify, shadow              | `mode.rs`              |
//! | One route's gate, which joins all of it       | `gate.rs`              |
//! | Protocol of one request                       | `protocol/`            |

mod class;
mod compare;
mod early_termination;
mod evidence;
mod exclusion;
mod features;
mod fixed_point;
mod forest;
mod gate;
mod isotonic;
mod kill_switch;
mod label_journal;
mod latency;
mod logistic;
mod mode;
mod parity;
mod payback;
mod probability;
mod protocol;
mod quality;
mod report;
mod scorer;
mod scoring_api;
mod shadow;
mod snapshot;
mod streaming_release;
#[cfg(test)]
mod tests;
mod threshold;
mod verify;

pub use self::class::{Bound, CLASSES_MAX, Class, Delivery, Script, Traits};
pub use self::compare::{COMPARED_MIN, Change, Comparison, Findings, Spread};
pub use self::early_termination::{Prospects, Stand, Stands};
pub use self::evidence::{Evidence, Finish, Observation};
pub use self::exclusion::{ANSWER_MIN, Exclusion, Exclusions};
pub use self::features::{FEATURES, Features};
pub use self::gate::{Ask, Cascade, Judgement, Moment, PARTS_VERSION, Settings};
pub use self::kill_switch::{
    CLEAN_LABELS, HORIZON_LABELS, KillSwitch, OffReason, Sample, Standing,
};
pub use self::label_journal::{Hearing, JOURNAL_MAX, Journal, Note};
pub use self::mode::Mode;
pub use self::parity::{Difference, Parity, Tokenizer};
pub use self::payback::{DEBT_MAX, Payback, Unpaid, Upshot, Waited};
pub use self::probability::{LogProb, Nats, PROPENSITY_MIN, Propensity};
pub use self::protocol::{
    Action, Cause, Continuation, DraftCall, Event, Outcome, Protocol, Rejected, RequestDraws, Said,
    Scored, Terms, Tokenizers,
};
pub use self::quality::{Estimate, Interval};
pub use self::report::Report;
pub use self::scorer::{EXAMPLES_MAX, Label, Scorer};
pub use self::scoring_api::{Abilities, BLANKS_MAX, PATHS, Path, REFUSED_FOR, Server, VLLM_LEAST};
pub use self::shadow::{Draw, Shadow};
pub use self::snapshot::PartsError;
pub use self::streaming_release::{FIRST_MAX, FIRST_MIN, Release, Running, Step, Windows};
pub use self::threshold::{Bar, Choice, LOSS_MAX, LOSS_MIN, Lesson, Threshold};
pub use self::verify::{Resume, TIE, TargetRow, Verified, VerifyError, verify, verify_told};
