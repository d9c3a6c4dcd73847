//! Fleet events: what probes, scrapes, KV events, drains and membership tell the core.

use std::sync::{Arc, MutexGuard};

use overdraft_core::fleet::{Probe, Scraped, WorkerId};
use overdraft_core::memory_drift::Step;
use overdraft_core::prefix::{Event, Knowledge, LayerGroup};
use overdraft_core::route::Router;
use overdraft_units::{BlockSize, Micros, Tokens};

use super::dispatcher::Dispatcher;
use super::members::Member;

/// What the core is told of the settings of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    pub(crate) shares_blocks: bool,
    /// Sequences that it computes at once, where that is configured.
    pub(crate) sequences_max: Option<u32>,
}

impl Traits {
    fn tell(self, router: &mut Router, worker: WorkerId) {
        if self.shares_blocks {
            router.share_blocks(worker);
        } else {
            router.compute_alone(worker);
        }
        router.seat(worker, self.sequences_max);
    }
}

impl Dispatcher {
    /// A worker joins the fleet, known by `tag` to all gateways. `seat` enters it into the table of members under
    /// the same lock: whoever walks through the fleet looks each worker up there. `None` where the fleet is full.
    pub(crate) fn join(
        &self,
        tag: u64,
        traits: Traits,
        seat: impl FnOnce(WorkerId),
    ) -> Option<WorkerId> {
        let mut router = self.router();
        let id = router.join(tag)?;
        traits.tell(&mut router, id);
        seat(id);
        Some(id)
    }

    /// A worker goes by other settings: `member` takes the place that it had. What is known of it stays, and what it
    /// has in flight goes on.
    pub(crate) fn resettle(&self, traits: Traits, member: Arc<Member>) {
        let mut router = self.router();
        traits.tell(&mut router, member.id);
        router.resettled(member.id);
        drop(router);
        self.members.replace(member);
        self.readmit();
    }

    /// A worker leaves the fleet.
    pub(crate) fn leave(&self, worker: WorkerId) {
        self.router().leave(worker);
        self.call_waiting();
    }

    /// A worker is sent nothing new.
    pub(crate) fn drain(&self, worker: WorkerId) {
        self.router().drain(worker);
        self.member(worker).leaves(Some(self.clock.now()));
        self.call_waiting();
    }

    /// A drain is called off, whatever it was for.
    pub(crate) fn rejoin(&self, worker: WorkerId) {
        self.router().rejoin(worker);
        self.member(worker).leaves(None);
        self.call_waiting();
    }

    /// Decides on a repair with `next`, and begins or ends the drain that it asks for, in one step.
    pub(crate) fn repair(
        &self,
        next: impl FnOnce(&Router) -> Option<(WorkerId, Step)>,
    ) -> Option<(WorkerId, Step)> {
        let mut router = self.router();
        let next = next(&router);
        match next {
            Some((worker, Step::Drain { .. })) => {
                router.drain_for_repair(worker);
                self.member(worker).leaves(Some(self.clock.now()));
            }
            Some((worker, Step::Rejoin(_))) => {
                router.repaired(worker);
                if !router.fleet().worker(worker).is_draining() {
                    self.member(worker).leaves(None);
                }
            }
            _ => {}
        }
        drop(router);
        self.call_waiting();
        next
    }

    /// What a probe saw.
    pub(crate) fn probed(&self, worker: WorkerId, probe: Probe<'_>) {
        let change = self.router().probed(worker, probe, self.clock.now());
        self.changed(change);
    }

    /// How long a question to a worker and its answer were on their way.
    pub(crate) fn round_trip(&self, worker: WorkerId, took: Micros) {
        self.router().round_trip(worker, took);
    }

    /// What a worker's metrics say, and how many tokens a second it fetches from others.
    pub(crate) fn scraped(&self, worker: WorkerId, scraped: Scraped, fetch_rate: u64) {
        let mut router = self.router();
        router.scraped(worker, scraped);
        router.fetched(worker, fetch_rate);
    }

    /// Whether a worker's metrics could be had.
    pub(crate) fn measured(&self, worker: WorkerId, told: bool) {
        let change = self.router().measured(worker, told, self.clock.now());
        self.changed(change);
    }

    /// Time has passed.
    pub(crate) fn tick(&self) {
        let now = self.clock.now();
        self.router().tick(now);
        self.call_waiting();
    }

    /// A worker's process is another than before.
    pub(crate) fn restarted(&self, worker: WorkerId) {
        self.router().restarted(worker);
    }

    /// A worker reports what its cache holds; the reports are told one by one. `None` where they are of a process
    /// that is gone: the worker has lost its cache more often than `losses` says.
    pub(crate) fn cache_reports(&self, worker: WorkerId, losses: u32) -> Option<CacheReports<'_>> {
        let router = self.router();
        (router.cache_losses(worker) == losses).then_some(CacheReports { router, worker })
    }
}

/// Reports of one worker's cache on their way into the core, which is locked meanwhile.
#[derive(Debug)]
pub(crate) struct CacheReports<'a> {
    router: MutexGuard<'a, Router>,
    worker: WorkerId,
}

impl CacheReports<'_> {
    /// Tokens that fit the worker's cache, as far as it has said so.
    pub(crate) fn capacity(&self) -> Option<Tokens> {
        self.router.fleet().worker(self.worker).kv_capacity()
    }

    /// They are in blocks of so many tokens.
    pub(crate) fn in_blocks_of(&mut self, block: BlockSize) {
        self.router.reports_by(self.worker, block);
    }

    /// What is known of the worker's cache so far.
    pub(crate) fn knowledge(&self) -> Knowledge {
        self.router.prefixes().knowledge(self.worker)
    }

    /// One report on a group of its layers.
    pub(crate) fn tell(&mut self, group: LayerGroup, event: Event<'_>) {
        self.router.group_changed(self.worker, group, event);
    }
}
