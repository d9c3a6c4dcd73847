//! Members of the fleet: the shell's side of each worker, by the number that the core gave it.
//!
//! Invariant: while an attempt is in flight at a worker, the worker's index in the table is not
//! reused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use overdraft_core::cascade::Abilities;
use overdraft_core::fleet::WorkerId;
use overdraft_core::resume::Ability;
use overdraft_units::{Instant, Micros};
use tokio::task::JoinSet;

use crate::settings::WorkerSettings;
use crate::upstream::Upstream;

/// One worker and what belongs to it in the shell.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: WorkerId,
    pub(crate) settings: WorkerSettings,
    pub(crate) upstream: Arc<Upstream>,
    /// How it can be asked to score drafts.
    abilities: Mutex<Abilities>,
    /// What it understands of what resuming needs.
    resume_ability: Mutex<Ability>,
    /// When its drain began, in microseconds from one on; zero while there is none.
    leaves_since: AtomicU64,
    /// What watches it; ends with it.
    watchers: Mutex<JoinSet<()>>,
}

impl Member {
    /// A worker that nothing watches yet.
    pub(crate) fn new(id: WorkerId, settings: WorkerSettings, upstream: Arc<Upstream>) -> Self {
        Self {
            id,
            settings,
            upstream,
            abilities: Mutex::default(),
            resume_ability: Mutex::default(),
            leaves_since: AtomicU64::new(0),
            watchers: Mutex::default(),
        }
    }

    /// How it can be asked to score drafts.
    pub(crate) fn abilities(&self) -> MutexGuard<'_, Abilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it understands of what resuming needs.
    pub(crate) fn resume_ability(&self) -> MutexGuard<'_, Ability> {
        self.resume_ability.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is sent nothing new from `now` on; or is again.
    pub(crate) fn leaves(&self, now: Option<Instant>) {
        let since = now.map_or(0, |now| now.since(Instant::ORIGIN).get().saturating_add(1));
        self.leaves_since.store(since, Ordering::Relaxed);
    }

    /// Since when it has been sent nothing new, where it leaves.
    pub(crate) fn leaves_since(&self) -> Option<Instant> {
        let since = self.leaves_since.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Instant::ORIGIN + Micros::new(since))
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
