//! Fleet events: what probes, scrapes, KV events, drains and membership tell the core.

use std::sync::MutexGuard;

use overdraft_core::fleet::{Probe, Scraped, WorkerId};
use overdraft_core::memory_drift::Step;
use overdraft_core::prefix::{Event, Knowledge};
use overdraft_core::route::Router;
use overdraft_units::{BlockSize, Micros, Tokens};

use super::dispatcher::Dispatcher;

impl Dispatcher {
    /// A worker joins the fleet, known by `tag` to all gateways. `seat` enters it into the table of members under
    /// the same lock: whoever walks through the fleet looks each worker up there. `None` where the fleet is full.
    pub(crate) fn join(
        &self,
        tag: u64,
        shares_blocks: bool,
        seat: impl FnOnce(WorkerId),
    ) -> Option<WorkerId> {
        let mut router = self.router();
        let id = router.join(tag)?;
        if shares_blocks {
            router.share_blocks(id);
        }
        seat(id);
        Some(id)
    }

    /// A worker leaves the fleet; whether it was draining.
    pub(crate) fn leave(&self, worker: WorkerId) -> bool {
        let mut router = self.router();
        let was_draining = router.fleet().worker(worker).is_draining();
        router.leave(worker);
        was_draining
    }

    /// A worker is sent nothing new.
    pub(crate) fn drain(&self, worker: WorkerId) {
        self.router().drain(worker);
        self.member(worker).leaves(Some(self.clock.now()));
    }

    /// A drain is called off.
    pub(crate) fn rejoin(&self, worker: WorkerId) {
        self.router().rejoin(worker);
        self.member(worker).leaves(None);
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
                router.drain(worker);
                self.member(worker).leaves(Some(self.clock.now()));
            }
            Some((worker, Step::Rejoin(_))) => {
                router.rejoin(worker);
                self.member(worker).leaves(None);
            }
            _ => {}
        }
        next
    }

    /// What a probe saw.
    pub(crate) fn probed(&self, worker: WorkerId, probe: Probe<'_>) {
        let change = self.router().probed(worker, probe, self.clock.now());
        if change.is_some() {
            self.call_waiting();
        }
        self.report(change);
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
        self.report(change);
    }

    /// Time has passed.
    pub(crate) fn tick(&self) {
        let now = self.clock.now();
        self.router().tick(now);
    }

    /// A worker reports what its cache holds, in blocks of `block` tokens; the reports are told one by one.
    pub(crate) fn cache_reports(&self, worker: WorkerId, block: BlockSize) -> CacheReports<'_> {
        let mut router = self.router();
        router.reports_by(worker, block);
        CacheReports { router, worker }
    }

    /// The same where the worker has said before in which blocks it reports.
    pub(crate) fn cache_reports_missed(&self, worker: WorkerId) -> CacheReports<'_> {
        CacheReports { router: self.router(), worker }
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

    /// What is known of the worker's cache so far.
    pub(crate) fn knowledge(&self) -> Knowledge {
        self.router.prefixes().knowledge(self.worker)
    }

    /// One report.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        self.router.cache_changed(self.worker, event);
    }
}
