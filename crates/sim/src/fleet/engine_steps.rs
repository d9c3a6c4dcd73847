//! Engine steps: a request joins its worker, and the worker computes one step after the other.

use overdraft_core::fleet::Failure;
use overdraft_scheduler::batch::{Progress, Refusal, Verdict};
use overdraft_units::{Micros, TokenId, Tokens};

use super::bounds::VOCABULARY;
use super::draft_model::Said;
use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::refusal::groups_of;
use super::request_slab::{Flight, Role};
use super::scenario::{CacheKnowledge, Overdraft};
use super::stall;
use super::worker::Next;
use crate::report::{Belongs, Cause, Fate};

/// Tokens of an answer between two times that the gateway says how far it is, as it does live.
const PROGRESS_TOKENS: u32 = 32;

impl Simulation<'_> {
    /// A worker takes a request in, or refuses it.
    pub(super) fn join(&mut self, id: FlightId) {
        let flight = self.flights.of(id);
        let worker = flight.worker;
        if !self.workers[worker].is_up() {
            flight.lose(Fate::Failed, Cause::WorkerLost);
            flight.failure = Some(Failure::Unreachable);
            self.agenda.enter(self.now + self.scenario.network, Event::Ended(id));
            return;
        }
        if self.is_turned_away(id, worker) {
            return;
        }
        let flight = self.flights.of(id);
        // As engines do, an answer is cut where the context ends.
        let room = self.workers[worker].room_after(flight.prompt_tokens) + flight.continues;
        flight.answer.tokens = flight.answer.tokens.min(room);
        let output = flight.answer.tokens.checked_sub(flight.continues).unwrap_or_default();
        let prompt = std::mem::take(&mut flight.prompt);
        let verdict = self.workers[worker].handle_arrival(id, prompt, output, self.now);
        if let Verdict::Refused(refusal) = verdict {
            // What never fits is the client's mistake, as it is live, even where a larger worker has room.
            let is_full = matches!(refusal, Refusal::QueueFull { .. });
            let cause = if is_full { Cause::WorkerQueueFull } else { Cause::TooLarge };
            flight.lose(Fate::Refused, cause);
            flight.failure = is_full.then_some(Failure::Saturated);
            self.agenda.enter(self.now + self.scenario.network, Event::Ended(id));
            return;
        }
        self.begin_step(worker);
    }

    fn begin_step(&mut self, worker: usize) {
        let Self { flights, workers, .. } = self;
        let said = |id| {
            let flight: &Flight = flights.get(id)?;
            Some(Said { answer: flight.answer, tokens: flight.said, session: flight.session })
        };
        match workers[worker].plan_step(self.scenario.overdraft, self.now, said) {
            Next::Nothing => {}
            Next::Step(takes) => {
                let stands = stall::stands(&self.scenario.stalls, worker, self.now);
                let ends = self.now + stands + takes;
                workers[worker].step_ends = ends;
                self.agenda.enter(ends, Event::Stepped(worker));
            }
            Next::Crash(lost) => {
                let seen = self.now + self.scenario.network;
                for id in lost {
                    let flight = self.flights.of(id);
                    flight.lose(Fate::Failed, Cause::WorkerLost);
                    flight.failure = Some(Failure::Unreachable);
                    self.agenda.enter(seen, Event::Ended(id));
                }
                if let Overdraft::Crash(restart) = self.scenario.overdraft {
                    self.agenda.enter(self.now + restart, Event::Restarted(worker));
                }
            }
        }
    }

    /// A worker has computed a step: its tokens go out, and the next step begins.
    pub(super) fn end_step(&mut self, worker: usize) {
        let seen = self.now + self.scenario.network;
        let is_windowed = self.scenario.cascade.as_ref().is_some_and(|one| one.windows.is_some());
        let Self { flights, recorder, agenda, courses, .. } = self;
        let mut tokens = 0;
        // Mostly all had their last token at one time.
        let (mut gap, mut gaps, mut of) = (Micros::ZERO, 0, Belongs::default());
        self.workers[worker].handle_step(self.now, |yields, drafts, appended| {
            let id = yields.flight;
            let flight = flights.of(id);
            let before = flight.said;
            let is_shown =
                flight.visit.is_some() && flight.role == Role::Target && flight.is_counted();
            speak(flight, drafts, appended);
            tokens += if is_shown { u64::from(flight.said - before) } else { 0 };
            if flight.first.is_none() {
                flight.first = Some(seen);
                flight.cached = yields.cached();
                agenda.enter(seen, Event::FirstToken(id));
                // Who reads a draft waits from its last token for the target's first.
                let course = flight.course.filter(|_| is_shown && flight.continues != Tokens::ZERO);
                if let Some(course) = course.and_then(|course| courses.get(course)) {
                    recorder.gaps(seen.since(course.last), 1, groups_of(flight));
                }
            } else if is_shown {
                let (own, belongs) = (seen.since(flight.last), groups_of(flight));
                if own != gap || belongs != of {
                    recorder.gaps(gap, gaps, of);
                    (gap, gaps, of) = (own, 0, belongs);
                }
                gaps += 1;
            }
            flight.last = seen;
            if flight.said == flight.answer.tokens.get() || flight.role == Role::GivenUp {
                agenda.enter(seen, Event::Ended(id));
                return (Progress::Finished, flight.session);
            }
            if is_windowed && flight.role == Role::Draft {
                agenda.enter(seen, Event::Drafted(id, flight.dice, flight.said));
            }
            if before / PROGRESS_TOKENS < flight.said / PROGRESS_TOKENS {
                agenda.enter(seen, Event::Progressed(id, flight.said));
            }
            (Progress::Continues, flight.session)
        });
        recorder.gaps(gap, gaps, of);
        recorder.tokens(seen, tokens);
        if self.scenario.knowledge == CacheKnowledge::Reported {
            let changes = self.workers[worker].changes();
            if !changes.is_empty() {
                let changes = changes.into_boxed_slice();
                self.agenda.enter(seen, Event::CacheChanged(worker, changes));
            }
        }
        self.begin_step(worker);
    }
}

/// The answer goes on: by the guesses that are right, and the token after them.
fn speak(flight: &mut Flight, drafts: &[TokenId], appended: &mut Vec<TokenId>) {
    let mut guesses = drafts.iter();
    while flight.said < flight.answer.tokens.get() {
        let token = flight.answer.token(flight.said, VOCABULARY);
        flight.said += 1;
        appended.push(token);
        if guesses.next() != Some(&token) {
            return;
        }
    }
}
