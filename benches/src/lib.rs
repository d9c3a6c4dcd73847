//! What the benches share: claims and how they are judged, draws, models of random weights, questions
//! for the shipped ones, and small statistics.
//!
//! A bench prints its table, then one line per claim, and fails when one falls short. A claim that
//! could not be measured says why and fails nothing.

mod claim;
mod dice;
pub mod model;
pub mod questions;
mod runs;

pub use self::claim::{Aim, Claim};
pub use self::dice::Dice;
pub use self::runs::{as_float, machine_load, median, percentile, save, save_page};
