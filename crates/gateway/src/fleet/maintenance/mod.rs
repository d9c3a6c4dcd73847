//! Maintenance of workers: warm-up, memory drift, restarts, and wake hooks.
//!
//! `overdraft_core::memory_drift` decides when any of it is due; this folder reads the pages, calls the
//! hooks, and begins and ends the drains.

mod hook;
mod memory;

mod repair;
mod wake;
mod warm;

use overdraft_core::fleet::WorkerId;
use overdraft_telemetry::metrics::MemoryGauges;

pub(crate) use self::memory::watch;
pub(crate) use self::repair::keep;
pub(crate) use self::wake::keep_waking;
pub(crate) use self::warm::Warmth;
use super::Fleet;

/// The gauges of the workers' memory.
pub(crate) fn memory_gauges(fleet: &Fleet) -> Vec<MemoryGauges> {
    let settings = fleet.settings().repair;
    let ids: Vec<WorkerId> = fleet.dispatcher.view().fleet().workers().map(|(id, _)| id).collect();
    let watch = fleet.repairs.watch();
    let gauges = ids.into_iter().filter_map(|id| {
        let drift_permille = watch.drift_permille(id, &settings)?;
        Some(MemoryGauges {
            worker: fleet.dispatcher.upstream(id).name().to_owned(),
            drift_permille,
        })
    });
    gauges.collect()
}
