//! Cascade of the simulated gateway: a draft pool before the target's.
//!
//! What to ask and what to believe decides `core::cascade`, as it does live. What a draft says about its own
//! certainty and how often it is worse is not known without models: the scenario says it, for each kind of
//! request. A draft is judged when it is whole, so a client sees its first token then. One that is given up ends with its
//! next token: until then it takes its place among the draft workers' requests, as one whose connection is gone may.

use overdraft_core::cascade::{Ask, Choice, Upshot};
use overdraft_units::Tokens;

use super::draft_gate::traits;
use super::error::SimulateError;
use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::life_cycle::unsent;
use super::request_slab::{Flight, Role};
use crate::report::Fate;

impl Simulation<'_> {
    /// Asks the draft pool where the gate says so.
    pub(super) fn draft_first(&mut self, mut flight: Flight) -> Result<(), SimulateError> {
        let Some(gatekeeper) = &mut self.gatekeeper else { return Ok(()) };
        let asked = gatekeeper.ask(flight.dice, flight.prompt_tokens);
        let limit = gatekeeper.gate.payback().limit(&traits(flight.prompt_tokens));
        match asked {
            Ask::Target => {}
            Ask::Draft => flight.role = Role::Draft(asked),
            Ask::Beside(_) => {
                let beside = Flight { visit: None, role: Role::Draft(asked), ..unsent(&flight) };
                let beside = self.flights.add(beside);
                self.seek(beside)?;
            }
        }
        let dice = flight.dice;
        let id = self.flights.add(flight);
        if asked == Ask::Draft {
            self.agenda.enter(self.now + limit, Event::Limit(id, dice));
        }
        self.seek(id)
    }

    /// A draft has taken as long as it may: the target is asked, if the draft has not ended by now.
    pub(super) fn give_up_draft(&mut self, id: FlightId, dice: u64) -> Result<(), SimulateError> {
        let is_same = |flight: &&Flight| {
            flight.dice == dice && flight.role == Role::Draft(Ask::Draft) && flight.visit.is_some()
        };
        let Some(found) = self.flights.get(id).filter(is_same) else { return Ok(()) };
        let mut flight = unsent(found);
        let draft = self.flights.of(id);
        (draft.role, draft.visit) = (Role::GivenUp, None);
        let took = self.now.since(flight.asked);
        if let Some(gatekeeper) = &mut self.gatekeeper {
            gatekeeper.drafted(&flight, took, Ask::Draft, Upshot::Failed);
        }
        let Some(visit) = flight.visit else { return Ok(()) };
        self.spell_again(&mut flight, visit);
        (flight.role, flight.asked) = (Role::Target, self.now);
        let target = self.flights.add(flight);
        self.seek(target)
    }

    /// What becomes of a request whose draft has ended: it is given back where that is the answer.
    pub(super) fn judge(
        &mut self,
        mut flight: Flight,
        asked: Ask,
    ) -> Result<Option<Flight>, SimulateError> {
        let (prompt, output) = (flight.prompt_tokens, Tokens::new(flight.said));
        let mut judgement = None;
        if let Some(gatekeeper) = &mut self.gatekeeper {
            if flight.fate == Fate::Completed {
                judgement = Some(gatekeeper.judge(flight.dice, prompt, output, asked));
            }
            let upshot = judgement.map_or(Upshot::Failed, |one| one.upshot());
            gatekeeper.drafted(&flight, self.now.since(flight.asked), asked, upshot);
        }
        let Some(visit) = flight.visit else { return Ok(None) };
        self.spell_again(&mut flight, visit);
        let is_served = judgement.is_some_and(|one| one.serve == Choice::Draft);
        if !is_served {
            let target = Flight { role: Role::Target, asked: self.now, ..unsent(&flight) };
            let target = self.flights.add(target);
            self.seek(target)?;
            return Ok(None);
        }
        if judgement.is_some_and(|one| one.checked) {
            let shadow = Flight { visit: None, role: Role::Target, ..unsent(&flight) };
            let shadow = self.flights.add(shadow);
            self.seek(shadow)?;
        }
        // What is judged when it is whole is shown when it is whole.
        flight.first = Some(flight.last);
        self.recorder.tokens(flight.last, u64::from(flight.said));
        Ok(Some(flight))
    }
}
