//! Fleet state: what is known of the workers beyond what the core knows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::Guard;
use overdraft_core::fleet::WorkerId;
use overdraft_core::memory_drift::Watch;
use overdraft_core::scale::Hold;
use overdraft_telemetry::metrics::{CostMetrics, FleetMetrics};
use tokio::sync::watch;

use super::model_list::ModelList;
use super::ranks::Ranks;
use super::tokenizers::Tokenizers;
use super::worker_hours::WorkerHours;
use super::worker_tls::WorkerTls;
use crate::discovery::Standing;
use crate::dispatch::Dispatcher;
use crate::settings::{GatewaySettings, Pool, Routes};

/// The pools of workers, in the order in which they are told.
pub(super) const POOLS: [Pool; 2] = [Pool::Target, Pool::Draft];

/// The workers, as far as watching over them goes.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) models: ModelList,
    pub(crate) ranks: Ranks,
    pub(crate) repairs: Repairs,
    pub(crate) holds: Holds,
    pub(crate) sources: Sources,
    pub(crate) tokenizers: Tokenizers,
    pub(crate) hours: WorkerHours,
    pub(crate) worker_tls: WorkerTls,
    pub(crate) cost: Arc<CostMetrics>,
    pub(crate) metrics: FleetMetrics,
}

impl Fleet {
    /// A fleet without workers.
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        metrics: FleetMetrics,
        cost: Arc<CostMetrics>,
    ) -> Self {
        let models = ModelList::default();
        models.rename(&dispatcher.routes());
        Self {
            dispatcher,
            models,
            ranks: Ranks::default(),
            repairs: Repairs::default(),
            holds: Holds::default(),
            sources: Sources::default(),
            tokenizers: Tokenizers::default(),
            hours: WorkerHours::default(),
            worker_tls: WorkerTls::default(),
            cost,
            metrics,
        }
    }

    /// The settings now; for a moment's look.
    pub(crate) fn settings(&self) -> Guard<Arc<GatewaySettings>> {
        self.dispatcher.settings()
    }

    /// Goes by other routes from now on.
    pub(crate) fn adopt(&self, before: &Routes, routes: &Routes) {
        self.models.rename(routes);
        if !before.has_same_tokenizers(routes) {
            self.tokenizers.forget();
        }
    }
}

/// What is known of the workers' memory, and who is under repair.
///
/// Whoever needs the router as well takes that first.
#[derive(Debug, Default)]
pub(crate) struct Repairs(Mutex<Watch>);

impl Repairs {
    pub(super) fn watch(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a worker is being drained or restarted.
    pub(crate) fn include(&self, worker: WorkerId) -> bool {
        self.watch().is_under_repair(worker)
    }
}

/// What metrics ask for, held steady.
#[derive(Debug, Default)]
pub(crate) struct Holds(pub(super) Mutex<[Hold; POOLS.len()]>);

/// How the sources of workers are doing, by what log lines call them.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<Vec<(String, watch::Receiver<Standing>)>>);

impl Sources {
    /// These are asked now.
    pub(crate) fn replace(&self, sources: Vec<(String, watch::Receiver<Standing>)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    /// Each by name, for how long it has stood so, and what is in its way if anything is.
    pub(crate) fn standings(&self) -> Vec<(String, Duration, Option<String>)> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |(name, latest): &(String, watch::Receiver<Standing>)| {
            let standing = latest.borrow();
            (name.clone(), standing.since.elapsed(), standing.error.clone())
        };
        sources.iter().map(told).collect()
    }
}
