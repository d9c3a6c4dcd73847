//! How many tokens are worth guessing, for which sequence, and by whom?
//!
//! Speculation trades rows of a step for tokens: a drafted token costs a row whether it turns out
//! right or not. What it brings is its chance to be right, and that all before it are; what it costs
//! is known from measuring steps. Everything here is a function of what it is told, and whole numbers but for prices;
//! the rules, numbered, are in `docs/design/speculation.md`.
//!
//! | question                                        | file            |
//! |-------------------------------------------------|-----------------|
//! | What part of a whole is it?                     | `share.rs`      |
//! | How likely is the next guess right?             | `acceptance.rs` |
//! | What is the draft model's confidence worth?     | `confidence.rs` |
//! | What is known of each kind of text?             | `kinds.rs`      |
//! | What does a step of so many rows cost?          | `costs.rs`      |
//! | How slow is the machine, how dear are guesses?  | `prices.rs`     |
//! | Which guesses bring the most tokens a second?   | `allot.rs`      |
//! | Who decides, by which rule?                     | `policy.rs`     |
//! | What does the rule of the write-up say?         | `threshold.rs`  |
//! | How deep does the next step guess?              | `controller.rs` |
//! | What is the controller told, and answers?       | `facts.rs`      |
//! | Is the draft model worth asking again?          | `probe.rs`      |
//! | What followed the last time this was said?      | `lookup.rs`     |
//! | What does it cost that sequences begin?         | `turnover.rs`   |
//! | Which table suits an engine that takes only one?| `tune.rs`       |

mod acceptance;
mod allot;
mod confidence;
mod controller;
mod costs;
mod facts;
mod kinds;
mod lookup;
mod policy;
mod prices;
mod probe;
mod share;
#[cfg(test)]
mod tests;
mod threshold;
mod tune;
mod turnover;
mod worth;

pub use self::acceptance::{Acceptance, Chances, DEPTH_MAX};
pub use self::allot::{Drafter, Grant, Prospect};
pub use self::confidence::{Confidence, Fate, Pursuit};
pub use self::controller::{Controller, PLAIN_EVERY_STEPS, PROBE_EVERY_STEPS};
pub use self::costs::{CostCurve, GuessPrice, Nanos, Pass, StepCosts};
pub use self::facts::{Decision, Load, Reason, Trial};
pub use self::kinds::CLASSES_MAX;
pub use self::lookup::{LOOKUP_SCAN_MAX, Lookup};
pub use self::policy::{DepthTable, Policy, PolicyError};
pub use self::prices::Ran;
pub use self::probe::PROBE_OFF_PART;
pub use self::share::Share;
pub use self::tune::{Advised, Counts, DRAFTS_MIN, Evidence, SEQUENCES_MAX, StepSeen, TuneError};
