//! Causes of missed prompt tokens, told when a request is sent and when its first token comes.

use overdraft_units::Tokens;

use super::bounds::MODEL;
use super::event_loop::Simulation;
use super::event_queue::FlightId;
use super::miss_attribution::Held;
use super::request_slab::{Flight, Role};
use super::worker::Worker;
use crate::report::Missed;

impl Simulation<'_> {
    /// Notes what workers hold of the prompt of a request that is being sent.
    pub(super) fn note_held(&mut self, id: FlightId) {
        let Some(ledger) = &self.ledger else { return };
        let flight = self.flights.of(id);
        let (Role::Target, Some(visit)) = (flight.role, flight.visit) else { return };
        if flight.continues != Tokens::ZERO {
            return;
        }
        let visit = self.visits.of(visit);
        let known = ledger.known(&visit.session.turns[visit.turn].prompt);
        let has_crashed =
            known.is_some_and(|(_, one)| one.crashes < self.workers[one.worker].crashes);
        let known = known.map_or(0, |(tokens, _)| tokens);
        let own = self.workers.get(flight.worker).map_or(0, |own| own.holds(&flight.prompt));
        let most = known / self.scenario.page.get() * self.scenario.page.get();
        let (elsewhere, is_full) = held_elsewhere(&self.workers, flight, own, most);
        flight.held = Held { own, elsewhere, is_full, known, has_crashed };
    }

    /// The first token has come: what was not found is told by its cause.
    pub(super) fn tell_missed(&mut self, id: FlightId) {
        let Some(ledger) = &mut self.ledger else { return };
        let flight = self.flights.of(id);
        let (Role::Target, Some(visit)) = (flight.role, flight.visit) else { return };
        if flight.continues != Tokens::ZERO {
            return;
        }
        let visit = self.visits.of(visit);
        let prompt = &visit.session.turns[visit.turn].prompt;
        count(&mut ledger.missed, flight, self.scenario.page.get());
        ledger.remember(prompt, flight.worker, self.workers[flight.worker].crashes);
    }

    /// An answer was told to its end: the next turn begins with it.
    pub(super) fn remember_answer(&mut self, flight: &Flight) {
        let Some(ledger) = &mut self.ledger else { return };
        let (Role::Target, Some(visit)) = (flight.role, flight.visit) else { return };
        let visit = self.visits.of(visit);
        if visit.turn + 1 < visit.session.turns.len() {
            let mut all = visit.session.turns[visit.turn].prompt.clone();
            all.push(flight.answer);
            ledger.remember(&all, flight.worker, self.workers[flight.worker].crashes);
        }
    }
}

/// What another worker holds of a prompt beyond its own worker's, and whether that one has no room for it. Nobody holds
/// more than the `most` that was ever computed, so the search ends there: of hundreds of workers mostly one is asked.
fn held_elsewhere(workers: &[Worker], flight: &Flight, own: u32, most: u32) -> (u32, bool) {
    let is_asked = |worker: &&Worker| worker.is_up() && worker.model() == MODEL;
    let (mut held, mut holder) = (own, None);
    for worker in workers.iter().filter(is_asked) {
        if most <= held {
            break;
        }
        let there = worker.holds(&flight.prompt);
        if held < there {
            (held, holder) = (there, Some(worker));
        }
    }
    holder.map_or((0, false), |worker| {
        (held, !worker.has_room_for(flight.prompt_tokens.get().saturating_sub(held)))
    })
}

/// Counts what was not found: what somebody holds before what nobody does any more, and that before what is new.
fn count(missed: &mut Missed, flight: &Flight, page: u32) {
    let Held { own, elsewhere, is_full, known, has_crashed } = flight.held;
    let prompt = flight.prompt_tokens.get();
    // The last page is computed in any case: an answer begins with its last token.
    let whole = prompt.saturating_sub(1) / page * page;
    let mut at = flight.cached.get().min(prompt);
    let mut up_to = |end: u32| {
        let tokens = end.saturating_sub(at);
        at = at.max(end);
        u64::from(tokens)
    };
    missed.displaced_on_the_way += up_to(own.min(whole));
    let held = up_to(elsewhere.min(whole));
    if is_full {
        missed.holder_full += held;
    } else {
        missed.sent_elsewhere += held;
    }
    let lost = up_to((known / page * page).min(whole));
    if has_crashed {
        missed.crashed += lost;
    } else {
        missed.evicted += lost;
    }
    missed.never_seen += up_to(prompt);
}
