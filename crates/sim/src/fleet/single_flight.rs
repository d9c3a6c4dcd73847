//! Response cache and single flight in the simulation: requests that get another's answer.

use overdraft_units::{Instant, Micros, Tokens};

use super::error::SimulateError;
use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::request_slab::{Flight, Origin};
use crate::report::Fate;

impl Simulation<'_> {
    /// Gives a request the answer of an equal one, of before or of the same time; gives it back where it has
    /// to be asked.
    pub(super) fn answer_again(&mut self, mut flight: Flight) -> Option<Flight> {
        let (Some(answers), Some(cache)) = (&mut self.answers, self.scenario.cache) else {
            return Some(flight);
        };
        let Some(key) = flight.key else { return Some(flight) };
        let question = (key, flight.sender.priority);
        let found = answers.find(&key, self.now);
        if found.is_none() && !answers.is_asked(&question) {
            answers.ask(question);
            flight.leads = true;
            return Some(flight);
        }
        flight.source = Origin::Cache;
        let told = self.now + cache.takes;
        let id = self.flights.add(flight);
        match found {
            None => answers.join(&question, id),
            Some(tokens) => self.give(id, tokens, told, told),
        }
        None
    }

    /// A request gets another's answer, whose first and last tokens come at these times.
    fn give(&mut self, id: FlightId, answer: Tokens, first: Instant, last: Instant) {
        let flight = self.flights.of(id);
        (flight.said, flight.first, flight.last) = (answer.get(), Some(first), last);
        if flight.is_counted() {
            self.recorder.tokens(last, u64::from(answer.get()));
        }
        self.reused = (self.reused.0 + 1, self.reused.1 + u64::from(answer.get()));
        self.agenda.enter(last, Event::Ended(id));
    }

    /// The followers of a request get its answer, or ask for it after all.
    pub(super) fn share(&mut self, flight: &Flight) -> Result<(), SimulateError> {
        let (Some(answers), Some(key)) = (&mut self.answers, flight.key) else { return Ok(()) };
        let takes = self.scenario.cache.map_or(Micros::ZERO, |cache| cache.takes);
        for id in answers.told(&(key, flight.sender.priority)) {
            let joined = self.flights.of(id).due + takes;
            if let (Fate::Completed, Some(first)) = (flight.fate, flight.first) {
                let last = flight.last.max(joined).max(self.now);
                self.give(id, Tokens::new(flight.said), first.max(joined), last);
                continue;
            }
            let mut alone = self.flights.remove(id);
            alone.source = Origin::Worker;
            if let Some(visit) = alone.visit {
                self.spell_again(&mut alone, visit);
            }
            self.ask_models(alone)?;
        }
        Ok(())
    }
}
