//! Events of the fleet at the router: who joins and leaves, and what probes and scrapes find.
//!
//! **Invariant:** each change that the fleet tells is noted, so that the wait queue and the prefix index agree with it.

use overdraft_units::{Instant, Micros};

use super::router::{CHUNK_FIRST, Router};
use crate::fleet::{Change, Probe, WorkerId};

impl Router {
    /// Adds a worker; `None` when there are as many as may be.
    pub fn join(&mut self, tag: u64) -> Option<WorkerId> {
        let id = self.fleet.join(tag)?;
        // The place may have been another's.
        self.prefixes.leave(id);
        if self.chunks.len() <= id.index() {
            self.chunks.resize(id.index() + 1, CHUNK_FIRST);
            self.blocks.resize(id.index() + 1, None);
            self.cache_losses.resize(id.index() + 1, 0);
        }
        self.blocks[id.index()] = None;
        self.chunks[id.index()] = CHUNK_FIRST;
        Some(id)
    }

    /// Takes a worker out; what is in flight on it may finish.
    pub fn leave(&mut self, worker: WorkerId) {
        self.fleet.leave(worker);
        self.prefixes.leave(worker);
        self.queue.deserted(worker);
    }

    /// Sends a worker nothing new.
    pub fn drain(&mut self, worker: WorkerId) {
        self.fleet.drain(worker);
        self.queue.deserted(worker);
    }

    /// Calls a drain off, whatever it was for.
    pub fn rejoin(&mut self, worker: WorkerId) {
        self.fleet.rejoin(worker);
        self.queue.freed_all();
    }

    /// Sends a worker nothing new until its memory is repaired.
    pub fn drain_for_repair(&mut self, worker: WorkerId) {
        self.fleet.drain_for_repair(worker);
        self.queue.deserted(worker);
    }

    /// A repair of a worker has ended; a drain by another order goes on.
    pub fn repaired(&mut self, worker: WorkerId) {
        self.fleet.repaired(worker);
        self.queue.freed_all();
    }

    /// Takes in what a probe saw.
    pub fn probed(&mut self, worker: WorkerId, probe: Probe<'_>, now: Instant) -> Option<Change> {
        let change = self.fleet.probed(worker, probe, now);
        self.note(change);
        change
    }

    /// A probe of `worker` was answered after so long.
    pub fn round_trip(&mut self, worker: WorkerId, took: Micros) {
        if self.fleet.is_member(worker) {
            self.fleet.round_trip(worker, took);
        }
    }

    /// A worker told its load, or did not and is to be passed over until it does.
    pub fn measured(&mut self, worker: WorkerId, told: bool, now: Instant) -> Option<Change> {
        let change = self.fleet.measured(worker, told, now);
        self.note(change);
        change
    }

    /// Nobody waits on for a worker that went down, and one whose process is gone has lost its cache with it. Where one
    /// may be asked again, those that are held and those that wait elsewhere have a look.
    pub(super) fn note(&mut self, change: Option<Change>) {
        match change {
            Some(Change::WentDown(worker, cause)) => {
                self.queue.deserted(worker);
                if cause.loses_the_cache() {
                    // One that reports will be followed anew: until then its old reports are of a process
                    // that may be gone.
                    self.restarted(worker);
                }
            }
            Some(
                Change::CameUp(_)
                | Change::ModelsChanged(_)
                | Change::HalfOpened(_)
                | Change::Closed(_),
            ) => self.queue.freed_all(),
            Some(Change::Opened(_) | Change::Refuses(..)) | None => {}
        }
    }
}
