//! Back-pressure: a request that every worker it asked was too full for waits, and is asked once more.
//!
//! The core says after which pause, and when that is in vain, as it does live (admission R14).

use overdraft_core::admit::{BackPressure, Full, Wait, WaitTime};
use overdraft_core::fleet::{Failure, WorkerId};
use overdraft_core::route::Tried;
use overdraft_units::{Micros, Tokens};

use super::error::SimulateError;
use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::request_slab::{Flight, Role};
use crate::report::Fate;

impl Simulation<'_> {
    /// Lets a request pause that `worker` was too full for; gives it back where that is in vain.
    pub(super) fn pause(&mut self, mut flight: Flight, worker: WorkerId) -> Option<Flight> {
        let is_full = flight.failure == Some(Failure::Saturated) && flight.role == Role::Target;
        let Some(visit) = flight.visit.filter(|_| is_full && self.waits()) else {
            return Some(flight);
        };
        let fleet = self.gateways[flight.gateway].router.fleet();
        let full = Full { asked: None, is_busy: fleet.worker(worker).refusals().is_busy() };
        let priority = flight.sender.priority.unwrap_or_default();
        let patience = self.scenario.patience.of(priority);
        let mut pressure = flight.pressure.unwrap_or_else(|| BackPressure::new(patience, false));
        let Some(pause) = pressure.pause(full, self.now.since(flight.asked)) else {
            return Some(flight);
        };
        flight.pressure = Some(pressure);
        flight.tried = Tried::default();
        flight.renew();
        self.spell_again(&mut flight, visit);
        let id = self.flights.add(flight);
        self.agenda.enter(self.now + pause, Event::Returned(id, worker));
        None
    }

    /// A request's pause is over: it enters the queue at the worker that was too full for it.
    pub(super) fn return_to(&mut self, id: FlightId, at: WorkerId) -> Result<(), SimulateError> {
        let flight = self.flights.of(id);
        let waited = self.now.since(flight.asked);
        let patience = flight.pressure.map_or(Micros::ZERO, |pressure| pressure.patience());
        let left = patience.checked_sub(waited).unwrap_or(Micros::ZERO);
        self.queue(id, Wait::for_room(at, WaitTime::exactly(left)))
    }
}

impl Flight {
    /// As before its last attempt, which failed.
    pub(super) fn renew(&mut self) {
        (self.fate, self.cause, self.failure) = (Fate::Completed, None, None);
        self.cached = Tokens::ZERO;
    }
}
