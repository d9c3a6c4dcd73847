//! Groups of requests: their pool and worker, their priority, their tenant, their stage.

use overdraft_core::admit::Priority;

/// What a request belongs to, where a fleet or a load has several of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Belongs {
    /// Which pool's worker had it last.
    pub pool: Option<u16>,
    /// How much it matters.
    pub priority: Option<Priority>,
    /// Whose it is.
    pub tenant: Option<u16>,
    /// Which worker had it last.
    pub worker: Option<u16>,
    /// Which stage of the load it came in.
    pub stage: Option<u16>,
}

/// One worker of a simulated fleet, and what it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerTold {
    /// The place of its pool.
    pub pool: u16,
    /// Times a sequence lost its pages.
    pub preemptions: u64,
    /// Pages that were given to others while their content could still be found.
    pub evictions: u64,
    /// Times it died for want of pages.
    pub crashes: u64,
    /// Seconds in which it computed.
    pub busy_seconds: f64,
}

/// Workers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolTold {
    /// What they are.
    pub name: String,
    /// How many.
    pub workers: u32,
    /// Dollars an hour for each.
    pub dollars_per_hour: f64,
}

/// What places of [`Belongs`] stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// The fleet's pools.
    pub pools: Vec<PoolTold>,
    /// Names of tenants; those beyond them are called by their number.
    pub tenants: Vec<String>,
    /// The fleet's workers, where it was simulated.
    pub workers: Vec<WorkerTold>,
    /// Names of the load's stages.
    pub stages: Vec<String>,
}

impl Groups {
    /// A tenant's name, or its number where nobody named it.
    pub(super) fn tenant(&self, place: usize) -> String {
        self.tenants.get(place).cloned().unwrap_or_else(|| (place + 1).to_string())
    }

    /// A stage's name, or its number.
    pub(super) fn stage(&self, place: usize) -> String {
        self.stages.get(place).cloned().unwrap_or_else(|| (place + 1).to_string())
    }
}
