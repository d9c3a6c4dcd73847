//! What the benches share: claims and how they are judged, the real binary in processes, draws, models of random weights, questions
//! for the shipped ones, and small statistics.
//!
//! A bench prints its table, then one line per claim, and fails when one falls short. A claim that
//! could not be measured says why and fails nothing.

pub mod binary;
mod dice;
pub mod model;
pub mod questions;

pub use self::dice::Dice;
pub use overdraft_claims::{
    Aim, Claim, as_float, machine_load, median, percentile, save, save_page,
};
