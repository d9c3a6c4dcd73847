//! Members of the fleet: the shell's side of each worker, by the number that the core gave it.
//!
//! Invariant: while an attempt is in flight at a worker, the worker's index in the table is not
//! reused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use overdraft_core::cascade::Abilities;
use overdraft_core::fleet::WorkerId;
use overdraft_wire::prometheus::engine::WorkerReport;
use tokio::task::JoinSet;

use crate::settings::WorkerSettings;
use crate::upstream::Upstream;

/// One worker and what belongs to it in the shell.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: WorkerId,
    /// Its name, for whoever keeps it.
    name: Arc<str>,
    pub(crate) settings: WorkerSettings,
    pub(crate) upstream: Arc<Upstream>,
    /// How it can be asked to score drafts.
    abilities: Mutex<Abilities>,
    /// What watches it; ends with it.
    watchers: Mutex<JoinSet<()>>,
    /// What its engine last reported of itself.
    reports: Mutex<Option<WorkerReport>>,
}

impl Member {
    /// A worker that nothing watches yet.
    pub(crate) fn new(id: WorkerId, settings: WorkerSettings, upstream: Arc<Upstream>) -> Self {
        let name = upstream.name().into();
        let (abilities, watchers, reports) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { id, name, settings, upstream, abilities, watchers, reports }
    }

    /// How it can be asked to score drafts.
    pub(crate) fn abilities(&self) -> MutexGuard<'_, Abilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its engine reported this of itself.
    pub(crate) fn reported(&self, report: WorkerReport) {
        *self.reports.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// What its engine last reported of itself.
    pub(crate) fn report(&self) -> Option<WorkerReport> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tasks that watch it.
    pub(crate) fn watchers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its watchers.
    pub(crate) fn dismiss(&self) {
        self.watchers().abort_all();
    }
}

/// The table of members.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// By place in the fleet. A member that left stays until its place is another's: answers of
    /// its are still on their way.
    places: RwLock<Vec<Option<Arc<Member>>>>,
}

impl Members {
    /// The worker at a place that the core gave out, as it is spoken to.
    pub(crate) fn upstream(&self, worker: WorkerId) -> Arc<Upstream> {
        Arc::clone(&self.get(worker).upstream)
    }

    /// The same with all that belongs to it.
    pub(crate) fn get(&self, worker: WorkerId) -> Arc<Member> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let member = places.get(worker.index()).and_then(Option::as_ref);
        Arc::clone(member.expect("the core only names places that it gave out"))
    }

    /// The names of workers at places that the core gave out.
    pub(crate) fn names(&self, workers: impl Iterator<Item = WorkerId>) -> Vec<Arc<str>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let name = |worker: WorkerId| {
            let member = places.get(worker.index()).and_then(Option::as_ref);
            Arc::clone(&member.expect("the core only names places that it gave out").name)
        };
        workers.map(name).collect()
    }

    /// Ends every watcher.
    pub(crate) fn dismiss(&self) {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.iter().flatten().for_each(|member| member.dismiss());
    }

    /// Enters a member at its place; who was there before has left.
    pub(crate) fn seat(&self, member: Arc<Member>) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let place = member.id.index();
        if places.len() <= place {
            places.resize_with(place + 1, || None);
        }
        places[place] = Some(member);
    }
}
