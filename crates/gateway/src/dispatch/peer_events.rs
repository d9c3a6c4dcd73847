//! Peer events: what other gateways tell the core of breakers and loads, and what it tells them.

use overdraft_core::breaker::{Grants, News, Seen};
use overdraft_core::fleet::{Share, Worker, WorkerId};
use overdraft_core::route::Router;
use overdraft_store::{OwnShare, Shared};
use overdraft_units::Instant;

use super::dispatcher::Dispatcher;

/// A worker as gateways know it: its place here, and its number on the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerWorker {
    pub(crate) id: WorkerId,
    pub(crate) number: u64,
}

impl Dispatcher {
    /// Who grants trials of workers that are out.
    pub(crate) fn set_grants(&self, grants: Grants) {
        self.router().set_grants(grants);
    }

    /// Every worker.
    pub(crate) fn peer_workers(&self) -> Vec<PeerWorker> {
        let ids: Vec<WorkerId> = self.router().fleet().workers().map(|(id, _)| id).collect();
        ids.into_iter().map(|id| self.peer(id)).collect()
    }

    /// What breakers decided here and the others have not heard.
    pub(crate) fn breaker_news(&self) -> Vec<(PeerWorker, News)> {
        let router = self.router();
        let numbered = |(id, news)| (self.peer(id), news);
        router.breaker_news(self.clock.now()).map(numbered).collect()
    }

    /// The others have heard news up to `sequence`, and this is what stands with them now.
    pub(crate) fn breaker_told(
        &self,
        worker: PeerWorker,
        sequence: u32,
        seen: impl FnOnce(Instant) -> Seen,
    ) {
        let now = self.clock.now();
        let change = {
            let mut router = self.router();
            let same = self.is_still(&router, worker);
            same.then(|| router.breaker_told(worker.id, sequence, seen(now), now)).flatten()
        };
        self.changed(change);
    }

    /// What the others say of a worker's breaker.
    pub(crate) fn breaker_seen(&self, worker: PeerWorker, seen: impl FnOnce(Instant) -> Seen) {
        let now = self.clock.now();
        let change = {
            let mut router = self.router();
            let same = self.is_still(&router, worker);
            same.then(|| router.breaker_seen(worker.id, seen(now), now)).flatten()
        };
        self.changed(change);
    }

    /// Workers that this gateway may try and has not tried yet.
    pub(crate) fn probing(&self) -> Vec<PeerWorker> {
        let router = self.router();
        router.probing(self.clock.now()).map(|id| self.peer(id)).collect()
    }

    /// Workers that are out and whose trial is due.
    pub(crate) fn probes_due(&self) -> Vec<PeerWorker> {
        let router = self.router();
        router.probes_due(self.clock.now()).map(|id| self.peer(id)).collect()
    }

    /// This gateway may try a worker that is out.
    pub(crate) fn grant_probe(&self, worker: PeerWorker) {
        let change = {
            let mut router = self.router();
            let same = self.is_still(&router, worker);
            same.then(|| router.grant_probe(worker.id, self.clock.now())).flatten()
        };
        self.changed(change);
    }

    /// What this gateway has in flight, by the workers' numbers, and what waits in it.
    pub(crate) fn own_share(&self) -> OwnShare {
        let router = self.router();
        let workers = router.fleet().workers();
        let by_worker = workers.map(|(_, worker)| (worker.tag(), share(worker))).collect();
        OwnShare { by_worker, waiting: self.waiting(&router) }
    }

    /// What the others carry; workers that they do not name have nothing of theirs.
    pub(crate) fn note_others(&self, others: Shared) {
        let Shared { by_worker, waiting, .. } = others;
        self.wait_queue.note_elsewhere(waiting);
        let mut router = self.router();
        let workers: Vec<(WorkerId, u64)> =
            router.fleet().workers().map(|(id, worker)| (id, worker.tag())).collect();
        for (id, tag) in workers {
            router.others(id, by_worker.get(&tag).copied().unwrap_or_default());
        }
    }

    fn peer(&self, id: WorkerId) -> PeerWorker {
        PeerWorker { id, number: self.member(id).board_number }
    }

    /// Whether that place is still that worker's.
    fn is_still(&self, router: &Router, worker: PeerWorker) -> bool {
        router.fleet().is_member(worker.id) && self.peer(worker.id) == worker
    }
}

fn share(worker: &Worker) -> Share {
    let booked = worker.booked();
    Share { requests: booked.requests, prompt_tokens: booked.prompt_tokens, tokens: booked.tokens }
}
