//! What is done for workers beyond sending them requests: warming up, watching memory, restarting.
//!
//! When any of it is due is decided by `overdraft_core::fragment`; here pages are read, hooks
//! called, and drains begun and ended as it says.

mod errand;
mod hook;
mod memory;
mod place;
mod repair;
mod settings;
mod warm;

use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_core::fleet::WorkerId;
use overdraft_core::fragment::Watch;
use overdraft_telemetry::metrics::MemoryGauges;

pub(crate) use self::memory::watch;
pub use self::place::{PlaceError, WebPlace};
pub(crate) use self::repair::keep;
pub use self::settings::{
    Care, MemorySource, RestartHook, Token, WarmUp, WarmUpSettings, WebhookSettings,
};
pub(crate) use self::warm::Warmth;
use crate::shared::Shared;

/// What is known of the workers' memory, and who is under repair.
///
/// Whoever needs the router as well takes that first.
#[derive(Debug, Default)]
pub(crate) struct Repairs(Mutex<Watch>);

impl Repairs {
    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker is being drained or restarted.
    pub(crate) fn include(&self, worker: WorkerId) -> bool {
        self.watch().is_under_repair(worker)
    }
}

/// The gauges of the workers' memory.
pub(crate) fn memory_gauges(shared: &Shared) -> Vec<MemoryGauges> {
    let settings = shared.settings().repair;
    let ids: Vec<WorkerId> = shared.router().fleet().workers().map(|(id, _)| id).collect();
    let watch = shared.repairs.watch();
    let gauges = ids.into_iter().filter_map(|id| {
        let drift_permille = watch.drift_permille(id, &settings)?;
        Some(MemoryGauges { worker: shared.upstream(id).name().to_owned(), drift_permille })
    });
    gauges.collect()
}
