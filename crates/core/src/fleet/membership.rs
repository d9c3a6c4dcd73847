//! Membership: who is of the fleet, and the places that workers have in it.

use super::hot_fields::Glance;
use super::load::Load;
use super::worker::{Drains, Membership};
use super::{Fleet, WORKERS_MAX, Worker, WorkerId};

impl Fleet {
    /// Adds a worker of which nothing is known yet; `None` when there are [`WORKERS_MAX`].
    ///
    /// `tag` is its name as a number, equal in every gateway that knows it.
    pub fn join(&mut self, tag: u64) -> Option<WorkerId> {
        // Fresh places first: the longer one lies vacant, the less is still said of who had it.
        let fresh = (self.workers.len() < WORKERS_MAX).then_some(self.workers.len());
        let vacant = || self.workers.iter().position(|old| old.membership == Membership::Vacant);
        let place = fresh.or_else(vacant)?;
        let id = WorkerId(u16::try_from(place).ok()?);
        let worker = Worker::new(tag);
        if place == self.workers.len() {
            self.glances.push(Glance::of(&worker));
            self.workers.push(worker);
        } else {
            *self.changing(id) = worker;
        }
        self.traffic.workers += 1;
        Some(id)
    }

    /// Takes a worker out of the fleet. Nothing new goes there; what is in flight may finish, and
    /// its place stays taken until it has.
    pub fn leave(&mut self, worker: WorkerId) {
        let was_member = self.is_member(worker);
        let mut leaving = self.changing(worker);
        leaving.membership = Membership::Leaving;
        leaving.models.clear();
        // What others have there is no traffic of this fleet any more.
        leaving.load = Load::new();
        drop(leaving);
        self.traffic.workers -= usize::from(was_member);
        self.list_models();
        self.vacate(worker);
    }

    /// Sends `worker` nothing new from now on; what it has may finish.
    pub fn drain(&mut self, worker: WorkerId) {
        self.changing(worker).drains.ordered = true;
    }

    /// Ends a drain that was called off, whatever it was for.
    pub fn rejoin(&mut self, worker: WorkerId) {
        self.changing(worker).drains = Drains::NONE;
    }

    /// Drains `worker` for the repair of its memory.
    pub fn drain_for_repair(&mut self, worker: WorkerId) {
        self.changing(worker).drains.repair = true;
    }

    /// Ends the drain of a repair, and no other.
    pub fn repaired(&mut self, worker: WorkerId) {
        self.changing(worker).drains.repair = false;
    }

    /// Frees the place of a worker that left, once nothing is in flight on it.
    pub(super) fn vacate(&mut self, id: WorkerId) {
        let worker = &mut self.workers[id.index()];
        if worker.membership == Membership::Leaving && worker.booked.requests == 0 {
            worker.membership = Membership::Vacant;
        }
    }
}
