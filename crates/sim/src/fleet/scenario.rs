//! Which fleet, under which policy, seen how late?

use overdraft_core::admit::Mode;
use overdraft_core::fleet;
use overdraft_core::route::RouteSettings;
use overdraft_silicon::{Profile, ProfileError};
use overdraft_units::{Micros, Tokens};

use crate::workload::WorkloadError;

/// Workers of a simulated fleet at most.
pub const WORKERS_MAX: u32 = {
    assert!(fleet::WORKERS_MAX <= 1_024, "a fleet's places fit");
    1_024
};

/// A fleet and how it is driven.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Each worker's GPUs and model.
    pub profile: Profile,
    /// How many workers there are; 1 to [`WORKERS_MAX`].
    pub workers: u32,
    /// Tokens that a worker's cache holds; by default what the profile leaves room for.
    pub kv_tokens: Option<Tokens>,
    /// How requests are routed.
    pub routing: RouteSettings,
    /// What the gateway knows of caches.
    pub knowledge: CacheKnowledge,
    /// Time between two scrapes of a worker.
    pub scrape_every: Micros,
    /// How old a scrape is when it is taken in.
    pub scrape_delay: Micros,
    /// From gateway to worker, and the same back.
    pub network: Micros,
    /// What the worker's front end takes for each prompt token before it is queued, in nanoseconds.
    pub ingest_ns_per_token: u64,
    /// Who decides when sessions begin.
    pub pace: Pace,
    /// Requests that may wait at a worker; one more is refused.
    pub waiting_max: u32,
}

/// What a gateway knows of its workers' caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKnowledge {
    /// What it sent them, and what answers say of cached tokens.
    Estimated,
    /// What they report as it happens.
    Reported,
}

/// Who decides when sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The workload.
    Open,
    /// So many users, each of whom begins one when the one before is through.
    Closed(u32),
}

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
    /// Not even a page.
    #[error("a cache of `{0}` tokens holds no page; expected {page} or more", page = super::worker::PAGE.get())]
    Cache(u32),
}

impl Scenario {
    /// A fleet with the delays of a data centre, at a gateway that sees no KV events. Requests wait
    /// at the workers and not before them: the gateway's queue is not simulated.
    pub fn new(profile: Profile, workers: u32, mut routing: RouteSettings) -> Self {
        routing.admission.mode = Mode::Off;
        Self {
            profile,
            workers,
            kv_tokens: None,
            routing,
            knowledge: CacheKnowledge::Estimated,
            scrape_every: Micros::new(1_000_000),
            scrape_delay: Micros::new(5_000),
            network: Micros::new(250),
            ingest_ns_per_token: 0,
            pace: Pace::Open,
            waiting_max: 65_536,
        }
    }
}
