//! GPU performance model: step times (roofline) and memory of a GPU with a model.
//!
//! A [`Profile`] is a GPU, their number, a model and its format: how fast it reads and multiplies,
//! what it holds, what it costs. From a [`Batch`] of sequences it computes the step's time, by a
//! roofline with ten fitted constants. Profiles are data: those in `profiles/` ship inside the
//! binary, each figure with its source and how far it is to be trusted, and a user adds files of
//! the same form. Formulas, units and what they were checked against are in
//! `docs/design/gpu-model.md`.
//!
//! **Invariant:** equal profiles and equal batches take equal times; nothing here reads a clock.

mod batch;
mod catalogue;
mod closed_loop;
mod document;
mod engine;
mod error;
mod fit;
mod lengths;
mod measured;
mod model;
mod parts;
mod profile;
mod step;
mod times;

pub use self::batch::{Batch, Chunk};
pub use self::catalogue::{Catalogue, Listed};
pub use self::closed_loop::{ClosedLoop, Lengths, LoopResult};
pub use self::engine::{Engine, UnknownEngine};
pub use self::error::ProfileError;
pub use self::fit::{OBSERVED_MIN, Observed, StepFit};
pub use self::lengths::{AnswerLengths, LengthsError};
pub use self::measured::Measured;
pub use self::model::{Experts, Latent, Model, Window};
pub use self::parts::StepParts;
pub use self::profile::{Confidence, ExpertRates, Hardware, Profile, Rates, Scheduling};
pub use self::times::StepTimes;
