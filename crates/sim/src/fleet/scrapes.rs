//! Scrapes and peer sync in the simulation.

use overdraft_core::fleet::{Probe, Share};
use overdraft_units::Micros;

use super::event_loop::Simulation;
use super::event_queue::Event;
use super::gateway::Gateway;
use crate::workload::named;

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
            let queued = self.gateways.iter().map(|one| one.waiting.len()).sum();
            let preemptions = self.workers.iter().map(|one| one.counted().preemptions).sum();
            self.watch.see(self.now, &told, queued, preemptions);
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
