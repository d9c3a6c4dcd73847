//! May the cheap model's answer stand for the dear one's?
//!
//! A draft is asked first; what it said about its own certainty is weighed into the chance that its answer is not
//! worse than the target's, and held against a threshold that keeps the loss within what is allowed. Labels come from
//! shadow requests with known chances. Everything here is whole numbers and a function of what it is told; the
//! rules, numbered, are in `docs/design/cascade.md`.
//!
//! | question                                              | file             |
//! |-------------------------------------------------------|------------------|
//! | How likely, how surprising, how much does it weigh?   | `chance.rs`      |
//! | Who is judged by whose record?                        | `class.rs`       |
//! | What did the draft say about its own certainty?       | `evidence.rs`    |
//! | What of that is weighed?                              | `features.rs`    |
//! | How likely is the answer not worse?                   | `scorer.rs`      |
//! | In which direction does each feature point?           | `logistic.rs`    |
//! | What does a feature mean beside others?               | `forest.rs`      |
//! | How sure must it be?                                  | `threshold.rs`   |
//! | Which answers are checked?                            | `shadow.rs`      |
//! | When must it stop altogether?                         | `switch.rs`      |
//! | Does asking it first pay, in time and money?          | `payback.rs`     |
//! | How long do draft and target take?                    | `pace.rs`        |
//! | How much is lost?                                     | `quality.rs`     |
//! | Is a running draft worth waiting for?                 | `prospect.rs`    |
//! | How much may the client see now?                      | `release.rs`     |
//! | How much would the target have said itself?           | `verify.rs`      |
//! | How is it asked for that?                             | `path.rs`        |
//! | Who never meets a draft?                              | `exclusion.rs`   |
//! | Do two pools speak in the same tokens?                | `parity.rs`      |
//! | What do other gateways learn of it?                   | `journal.rs`     |
//! | Is what is on trial better?                           | `compare.rs`     |
//! | How do things stand?                                  | `report.rs`      |
//! | What is a route's draft good for?                     | `mode.rs`        |
//! | All of it for one route                               | `gate.rs`        |

mod chance;
mod class;
mod compare;
mod evidence;
mod exclusion;
mod features;
mod fixed;
mod forest;
mod gate;
mod isotonic;
mod journal;
mod logistic;
mod mode;
mod pace;
mod parity;
mod parts;
mod path;
mod payback;
mod prospect;
mod quality;
mod release;
mod report;
mod scorer;
mod shadow;
mod switch;
#[cfg(test)]
mod tests;
mod threshold;
mod verify;

pub use self::chance::{Chance, LogProb, Nats, PROPENSITY_MIN, Propensity};
pub use self::class::{Bound, CLASSES_MAX, Class, Delivery, Script, Traits};
pub use self::compare::{COMPARED_MIN, Change, Comparison, Findings, Spread};
pub use self::evidence::{Evidence, Finish, Observation};
pub use self::exclusion::{ANSWER_MIN, Exclusion, Exclusions};
pub use self::features::{FEATURES, Features};
pub use self::gate::{Ask, Cascade, Judgement, Moment, PARTS_VERSION, Settings};
pub use self::journal::{Hearing, JOURNAL_MAX, Journal, Note};
pub use self::mode::Mode;
pub use self::parity::{Difference, Parity, Tokenizer};
pub use self::parts::PartsError;
pub use self::path::{Abilities, BLANKS_MAX, PATHS, Path, REFUSED_FOR, Server, VLLM_LEAST};
pub use self::payback::{DEBT_MAX, Payback, Unpaid, Upshot, Waited};
pub use self::prospect::{Prospects, Stand, Stands};
pub use self::quality::{Estimate, Interval};
pub use self::release::{FIRST_MAX, FIRST_MIN, Release, Running, Step, Windows};
pub use self::report::Report;
pub use self::scorer::{EXAMPLES_MAX, Label, Scorer};
pub use self::shadow::{Draw, Shadow};
pub use self::switch::{
    CLEAN_LABELS, FALSE_ALARM, HORIZON_LABELS, KillSwitch, OffReason, Sample, Standing,
};
pub use self::threshold::{Bar, Choice, LOSS_MAX, LOSS_MIN, Lesson, Threshold};
pub use self::verify::{
    Resume, Rule, TIE, TargetRow, Verified, VerifyError, accepts, keeps_rest, verify, verify_told,
};
