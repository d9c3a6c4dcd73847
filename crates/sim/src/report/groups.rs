//! Groups of requests: their pool, their priority, their tenant.

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
}
