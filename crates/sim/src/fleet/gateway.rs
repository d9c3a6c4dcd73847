//! One gateway of several before the same workers, and what they tell each other.
//!
//! Each has a router of its own, a queue, its own scrapes and its own view of caches, as live ones have. What
//! each has in flight on every worker goes through the store (`docs/design/store.md`): told at intervals, and
//! heard by the others after the way there and back.

use std::collections::BTreeMap;

use overdraft_core::admit::Ticket;
use overdraft_core::fleet::{Probe, Share, WorkerId};
use overdraft_core::prefix::{EventFeed, PrefixLimits};
use overdraft_core::route::Router;
use overdraft_scheduler::batch::CacheChange;
use overdraft_units::{Instant, Micros};

use super::agenda::{Event, FlightId};
use super::reports;
use super::scenario::{CacheKnowledge, Scenario};
use super::simulation::Simulation;
use super::worker::Worker;
use crate::workload::named;

/// Gateways of a simulated fleet at most.
pub const GATEWAYS_MAX: u32 = 64;

/// How often gateways tell each other what they have in flight, as their own default.
pub(super) const SHARE_EVERY: Micros = Micros::new(150_000);

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
        for (number, worker) in (0..).zip(workers) {
            let Some(id) = gateway.router.join(named(&[0x776f_726b, number])) else { break };
            gateway.see(id, worker, Instant::ORIGIN);
            gateway.router.scraped(id, worker.scraped(Instant::ORIGIN));
            // As a probe tells it.
            gateway.router.round_trip(id, scenario.network + scenario.network);
            if scenario.knowledge == CacheKnowledge::Reported {
                gateway.feeds.push(reports::begin(&mut gateway.router, id));
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
            *feed = reports::begin(&mut self.router, id);
        }
    }

    /// Takes in what a worker says of its cache.
    pub(super) fn cache_changed(&mut self, id: WorkerId, changes: &[CacheChange]) {
        if let Some(feed) = self.feeds.get_mut(id.index()) {
            reports::apply(&mut self.router, id, feed, changes);
        }
    }

    /// What it has in flight, by worker.
    fn in_flight(&self) -> Vec<Share> {
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

impl Simulation<'_> {
    /// Gateways look at workers one after the other, spread over the interval.
    pub(super) fn begin_gateways(&mut self) {
        let count = u64::try_from(self.gateways.len()).unwrap_or(1).max(1);
        let every = self.scenario.scrape_every.get();
        for (gateway, place) in (0..).zip(0..self.gateways.len()) {
            let phase = Micros::new(every * gateway / count);
            self.agenda.enter(self.now + self.scenario.scrape_every + phase, Event::Scrape(place));
        }
        if 1 < count {
            self.agenda.enter(self.now + self.scenario.share_every, Event::Told);
        }
    }

    /// A gateway asks the workers for their load. It asks again only while something can still happen.
    pub(super) fn scrape(&mut self, gateway: usize) {
        let told: Vec<_> = self.workers.iter().map(|worker| worker.scraped(self.now)).collect();
        if gateway == 0 {
            self.watch.see(self.now, &told);
        }
        let router = &mut self.gateways[gateway].router;
        router.tick(self.now);
        let taken_in = self.now + self.scenario.scrape_delay;
        for (worker, scraped) in told.into_iter().enumerate() {
            if self.workers[worker].is_up() {
                let scraped = Event::Scraped(gateway, worker, Box::new(scraped));
                self.agenda.enter(taken_in, scraped);
            } else {
                router.probed(self.ids[worker], Probe::Unreachable, self.now);
            }
        }
        if self.goes_on() {
            self.agenda.enter(self.now + self.scenario.scrape_every, Event::Scrape(gateway));
        }
    }

    /// Every gateway tells what it has in flight.
    pub(super) fn tell(&mut self) {
        let told: Vec<Vec<Share>> = self.gateways.iter().map(Gateway::in_flight).collect();
        let heard = self.now + self.scenario.network + self.scenario.network;
        self.agenda.enter(heard, Event::Heard(told.into_boxed_slice()));
        if self.goes_on() {
            self.agenda.enter(self.now + self.scenario.share_every, Event::Told);
        }
    }

    /// Every gateway hears what the others have.
    pub(super) fn hear(&mut self, told: &[Vec<Share>]) {
        for (own, gateway) in self.gateways.iter_mut().enumerate() {
            for (place, id) in self.ids.iter().enumerate() {
                let others = told.iter().enumerate().filter(|(other, _)| *other != own);
                let sum = others.filter_map(|(_, shares)| shares.get(place)).fold(
                    Share::default(),
                    |sum, share| Share {
                        requests: sum.requests + share.requests,
                        prompt_tokens: sum.prompt_tokens + share.prompt_tokens,
                        tokens: sum.tokens + share.tokens,
                    },
                );
                gateway.router.others(*id, sum);
            }
        }
    }

    /// Whether anything can still happen.
    fn goes_on(&self) -> bool {
        self.next.is_some() || 0 < self.visits.count()
    }

    /// The gateway that a balancer before them chose for a request.
    pub(super) fn gateway_of(&self, dice: u64) -> usize {
        let count = u64::try_from(self.gateways.len()).unwrap_or(1).max(1);
        usize::try_from(named(&[dice]) % count).unwrap_or(0)
    }
}
