//! Speculative decoding: how many tokens to draft, for which sequence, by which drafter.
//!
//! Speculation trades rows of a step for tokens: a drafted token costs a row whether it is accepted
//! or not. Its benefit is the chance that it and all before it are accepted; its cost is measured
//! from steps. Everything here is a function of its inputs, in integer arithmetic except for
//! prices; the rules, numbered, are in `docs/design/speculation.md`.
//!
//! | subject                            | file                |
//! |------------------------------------|---------------------|
//! | Acceptance rate by draft position  | `acceptance.rs`     |
//! | Draft confidence                   | `confidence.rs`     |
//! | Text classes                       | `text_classes.rs`   |
//! | Step cost model                    | `costs.rs`          |
//! | Kalman filter of pace and prices   | `prices.rs`         |
//! | Draft allocation over sequences    | `allocation.rs`     |
//! | Policy for the draft depth         | `policy.rs`         |
//! | Threshold rules                    | `threshold.rs`      |
//! | Controller of the draft depth      | `controller.rs`     |
//! | Controller interface               | `facts.rs`          |
//! | Reasons to draft nothing           | `guard.rs`          |
//! | Draft model probing                | `probe.rs`          |
//! | Average benefit of the draft model | `worth.rs`          |
//! | Prompt lookup (n-gram) drafting    | `lookup.rs`         |
//! | Admission cost of new sequences    | `admission_cost.rs` |
//! | Static depth table for vLLM        | `tune/`             |

mod acceptance;
mod admission_cost;
mod allocation;
mod confidence;
mod controller;
mod costs;
mod facts;
mod guard;
mod lookup;
mod policy;
mod prices;
mod probe;
#[cfg(test)]
mod tests;
mod text_classes;
mod threshold;
mod tune;
mod worth;

pub use self::acceptance::{Acceptance, Chances, DEPTH_MAX};
pub use self::allocation::{Drafter, Grant, Prospect};
pub use self::confidence::{Confidence, Fate, Pursuit};
pub use self::controller::{Controller, PLAIN_EVERY_STEPS, PROBE_EVERY_STEPS};
pub use self::costs::{CostCurve, GuessPrice, Nanos, Pass, StepCosts};
pub use self::facts::{Decision, Load, Reason, Trial};
pub use self::lookup::{LOOKUP_SCAN_MAX, Lookup};
pub use self::policy::{DepthTable, Policy, PolicyError};
pub use self::prices::Ran;
pub use self::probe::PROBE_OFF_PART;
pub use self::text_classes::CLASSES_MAX;
pub use self::tune::{
    Advised, Counts, DRAFTS_MIN, Evidence, Present, SEQUENCES_MAX, StepSeen, TuneError,
};
