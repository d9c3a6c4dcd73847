//! Simulation errors: scenarios that cannot be run.

use overdraft_gpu_model::ProfileError;

use super::bounds::{GATEWAYS_MAX, WORKERS_MAX};
use crate::workload::{TENANTS_MAX, WorkloadError};

/// Why there is nothing to simulate.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The workload has a fault.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The model does not fit the GPUs.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Too few workers or too many.
    #[error("`{0}` workers cannot be simulated; expected 1 to {WORKERS_MAX}")]
    Workers(u32),
    /// None, or too many.
    #[error("`{0}` gateways cannot be simulated; expected 1 to {GATEWAYS_MAX}")]
    Gateways(u32),
    /// No chances, or none that are shares of one.
    #[error("`{0}` is no chance that a guess is right; expected a number from 0 to 1")]
    Acceptance(f64),
    /// Nobody says how likely guesses are right.
    #[error("speculation without chances; expected one for one kind of text at least")]
    NoAcceptance,
    /// Nobody says what drafts are worth, or what cannot be.
    #[error("a cascade without kinds of requests, or with one whose figures cannot be")]
    Kinds,
    /// Pools that answer for different models.
    #[error(
        "a pool of `{other}` beside one of `{first}`; expected one model for all of a fleet (a \
         cheaper one that is asked first is a cascade)"
    )]
    Models {
        /// What the first pool serves.
        first: String,
        /// What another does.
        other: String,
    },
    /// More tenants than are told apart.
    #[error("`{0}` tenants; expected {TENANTS_MAX} or fewer")]
    Tenants(usize),
    /// How often something comes, beside others.
    #[error("`{0}` is no weight; expected a number above zero")]
    Weight(f64),
    /// Not a token of a prompt and one of its answer.
    #[error("a context of `{0}` tokens holds no prompt with an answer; expected 2 or more")]
    Context(u32),
    /// Not even a page.
    #[error("a cache of `{tokens}` tokens holds no page; expected {page} or more")]
    Cache {
        /// What it holds.
        tokens: u32,
        /// What a page does.
        page: u32,
    },
}
