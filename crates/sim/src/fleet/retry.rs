//! Retry: a request whose worker failed is sent to another, as the live gateway does it.
//!
//! Whether to says the core, by attempts and a budget. Where tokens have been told already nobody asks: what a
//! client has seen is not said again.

use overdraft_core::fleet::{Turn, WorkerId};
use overdraft_core::route::{GiveUp, Strictness, Tried, Verdict, retry};

use super::event_loop::Simulation;
use super::request_slab::{Flight, Role};

/// Whether an attempt is the first.
pub(super) fn turn(tried: &Tried) -> Turn {
    if tried.attempts() == 0 { Turn::First } else { Turn::Again }
}

impl Simulation<'_> {
    /// Sends a request that failed on `worker` to another; gives it back where it is over.
    pub(super) fn ask_again(&mut self, mut flight: Flight, worker: WorkerId) -> Option<Flight> {
        let (Some(failure), Some(visit)) = (flight.failure, flight.visit) else {
            return Some(flight);
        };
        if flight.first.is_some() || flight.role != Role::Target {
            return Some(flight);
        }
        let router = &mut self.gateways[flight.gateway].router;
        flight.tried.fail(worker, failure, router.fleet(), self.now);
        let (model, tried) = (flight.role.model(), &flight.tried);
        let verdict = retry(router.fleet(), self.scenario.retry, model, tried, self.now);
        if let Verdict::GiveUp(why) = verdict {
            if why == GiveUp::Agreed {
                router.agreed(&flight.tried);
            }
            return self.pause(flight, worker);
        }
        let strictness = Strictness::after(failure);
        self.spell_again(&mut flight, visit);
        let id = self.flights.add(flight);
        let Ok(placed) = self.place(id, strictness) else {
            let flight = self.flights.remove(id);
            return self.pause(flight, worker);
        };
        self.flights.of(id).renew();
        self.retried += 1;
        self.send(id, placed);
        None
    }
}
