//! Simulated gateway: one of several before the same workers, with peer sync.
//!
//! Each has a router of its own, a queue, its own scrapes and its own view of caches, as live ones
//! have. Each publishes its load in flight at every worker through the store
//! (`docs/design/store.md`) at intervals, and the others read it after a round trip.

use std::collections::BTreeMap;

use overdraft_core::admit::Ticket;
use overdraft_core::fleet::{Probe, Share, WorkerId};
use overdraft_core::prefix::{EventFeed, PrefixLimits};
use overdraft_core::route::Router;
use overdraft_scheduler::batch::CacheChange;
use overdraft_units::{BlockSize, Instant};

use super::event_queue::FlightId;
use super::kv_events;
use super::scenario::{CacheKnowledge, Scenario};
use super::worker::Worker;
use crate::workload::named;

/// Keys that a gateway's index may hold, as the gateway's own default for a fleet of this size.
const INDEX: PrefixLimits = PrefixLimits { keys_max: 2 << 20 };

/// One of them.
pub(super) struct Gateway {
    pub(super) router: Router,
    /// Who stands behind a place in the queue.
    pub(super) waiting: BTreeMap<Ticket, FlightId>,
    /// By worker; empty where they report nothing.
    feeds: Vec<EventFeed>,
}

impl Gateway {
    /// A gateway that has just been told of all workers.
    pub(super) fn new(scenario: &Scenario, workers: &[Worker]) -> Self {
        let mut gateway =
            Self { router: Router::new(INDEX), waiting: BTreeMap::new(), feeds: Vec::new() };
        gateway.router.set_queue(scenario.queue);
        gateway.router.set_hedging(scenario.hedging);
        for (number, worker) in (0..).zip(workers) {
            let Some(id) = gateway.router.join(named(&[0x776f_726b, number])) else { break };
            gateway.see(id, worker, Instant::ORIGIN);
            gateway.router.scraped(id, worker.scraped(Instant::ORIGIN));
            // As a probe tells it.
            gateway.router.round_trip(id, scenario.network + scenario.network);
            if scenario.knowledge == CacheKnowledge::Reported {
                gateway.feeds.push(kv_events::begin(&mut gateway.router, id, worker.page()));
            }
        }
        gateway
    }

    fn see(&mut self, id: WorkerId, worker: &Worker, now: Instant) {
        self.router.probed(id, Probe::Ready(&[worker.model().to_owned()]), now);
    }

    /// A worker is there again, with nothing in its cache.
    pub(super) fn restarted(&mut self, id: WorkerId, worker: &Worker, now: Instant) {
        self.see(id, worker, now);
        if let Some(feed) = self.feeds.get_mut(id.index()) {
            *feed = kv_events::begin(&mut self.router, id, worker.page());
        }
    }

    /// Takes in what a worker says of its cache.
    pub(super) fn cache_changed(&mut self, id: WorkerId, page: BlockSize, changes: &[CacheChange]) {
        if let Some(feed) = self.feeds.get_mut(id.index()) {
            kv_events::apply(&mut self.router, id, feed, page, changes);
        }
    }

    /// What it has in flight, by worker.
    pub(super) fn in_flight(&self) -> Vec<Share> {
        let share = |worker: &overdraft_core::fleet::Worker| {
            let booked = worker.booked();
            Share {
                requests: booked.requests,
                prompt_tokens: booked.prompt_tokens,
                tokens: booked.tokens,
            }
        };
        self.router.fleet().workers().map(|(_, worker)| share(worker)).collect()
    }
}
