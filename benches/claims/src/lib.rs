//! Claims of a bench: the figures it promises, and whether they hold.
//!
//! A bench prints its table, then one line per claim, and fails when one falls short. A claim that
//! could not be measured says why and fails nothing. This crate is separate from the benches that
//! need the engine and the gateway, so that a bench of the simulator builds without them.

mod claim;
mod runs;

pub use self::claim::{Aim, Claim, judge};
pub use self::runs::{as_float, machine_load, median, percentile, save, save_page};
