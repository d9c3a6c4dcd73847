//! Request life cycle: arrival, response cache or placement, and its end; what computes it is in `engine_steps.rs`.

use overdraft_core::admit::{Tenant, Wait, WaitTime};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, FirstToken};
use overdraft_core::prefix::{Chunking, PrefixChain, PrefixKey};
use overdraft_core::route::{
    Attempted, Choice, Outcome, Placed, Prompt, Request, Strictness, Tried,
};
use overdraft_units::{BlockSize, CacheSalt, Micros, TokenId, Tokens};

use super::error::SimulateError;
use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId, VisitId};
use super::gateway::Gateway;
use super::miss_attribution::Held;
use super::refusal::{unplaced, unqueued};
use super::request_slab::{Flight, Origin, Role, Visit, spell_all};
use super::response_cache::Answers;
use super::retry;
use super::scenario::{CacheKnowledge, Pace};
use crate::float_conversion::length;
use crate::report::{Cause, Fate};
use crate::workload::{Piece, named};

/// Tokens of the gateway's chunks of text, which are of 512 bytes.
const TEXT_CHUNK: BlockSize = BlockSize::new(128).expect("128 is not zero");

impl Simulation<'_> {
    /// A session asks its next turn: the gateway decides.
    pub(super) fn ask(&mut self, visit: VisitId) -> Result<(), SimulateError> {
        self.asked += 1;
        let dice = named(&[self.seed, self.asked]);
        let gateway = self.gateway_of(dice);
        let Visit { session, turn, .. } = self.visits.of(visit);
        let asked = &session.turns[*turn];
        let sender = self.scenario.mix.sender(self.seed, session);
        let limit = self.scenario.declared.unwrap_or(asked.answer.tokens);
        let answer = Piece { tokens: asked.answer.tokens.min(limit), ..asked.answer };
        let key = match &self.answers {
            None => None,
            Some(_) => Answers::key(&asked.prompt, answer.tokens, sender.tenant),
        };
        let flight = Flight {
            visit: Some(visit),
            role: Role::Target,
            course: None,
            gateway,
            placed: None,
            tried: Tried::default(),
            failure: None,
            pressure: None,
            worker: 0,
            is_placed: false,
            sender,
            prompt: Vec::new(),
            prompt_tokens: asked.prompt_tokens(),
            keys: Vec::new(),
            dice,
            session: session.name,
            key,
            other: None,
            leads: false,
            answer,
            continues: Tokens::ZERO,
            limit,
            due: self.now,
            asked: self.now,
            said: 0,
            first: None,
            last: self.now,
            cached: Tokens::ZERO,
            joins: None,
            held: Held::default(),
            source: Origin::Worker,
            fate: Fate::Completed,
            cause: None,
            stage: self.scenario.stage(session.stage, self.now),
        };
        let Some(mut flight) = self.answer_again(flight) else { return Ok(()) };
        let cut = self.cut();
        (flight.prompt, flight.keys) = self.visits.of(visit).prompt(cut);
        self.ask_models(flight)
    }

    /// Asks the draft pool first where there is one, or a worker.
    pub(super) fn ask_models(&mut self, mut flight: Flight) -> Result<(), SimulateError> {
        flight.asked = self.now;
        if self.gatekeeper.is_some() {
            return self.draft_first(flight);
        }
        let flight = self.flights.add(flight);
        self.seek(flight)
    }

    /// How prompts are cut to be named, where the policy asks for names.
    fn cut(&self) -> Option<Chunking> {
        let routing = &self.scenario.routing;
        let asks = routing.policy.asks_for_prefixes() || routing.canary.is_some();
        asks.then(|| Chunking::Tokens(self.chunk()))
    }

    /// The prompt's names, where the policy asks for them.
    fn keys(&self, prompt: &[TokenId]) -> Vec<PrefixKey> {
        let Some(cut) = self.cut() else { return Vec::new() };
        let mut chain = PrefixChain::new(CacheSalt(0), cut);
        chain.push_tokens(prompt);
        chain.keys().to_vec()
    }

    /// How finely the gateway looks at prompts: by pages where workers report them, else by what its
    /// chunks of text come to.
    pub(super) fn chunk(&self) -> BlockSize {
        match self.scenario.knowledge {
            CacheKnowledge::Reported => self.scenario.page,
            CacheKnowledge::Estimated => TEXT_CHUNK,
        }
    }

    /// Whether a request waits where there is no room.
    pub(super) const fn waits(&self) -> bool {
        self.scenario.routing.admission.mode.waits()
    }

    /// Finds a worker for a request, or lets it wait where that is what admission says.
    pub(super) fn seek(&mut self, id: FlightId) -> Result<(), SimulateError> {
        let (at, awaits) = match self.place(id, Strictness::Judged) {
            Ok(placed) => {
                self.send(id, placed);
                return Ok(());
            }
            // A draft does not wait: the target can be asked instead.
            Err(Choice::Saturated { at, awaits, .. })
                if self.waits() && self.flights.of(id).role == Role::Target =>
            {
                (at, awaits)
            }
            Err(choice) => return self.refuse(id, unplaced(choice)),
        };
        let flight = self.flights.of(id);
        let patience = self.scenario.patience.of(flight.sender.priority.unwrap_or_default());
        self.queue(id, Wait { at, awaits, time: WaitTime::of(patience) })
    }

    /// A request waits at the gateway for a worker.
    pub(super) fn queue(&mut self, id: FlightId, wait: Wait) -> Result<(), SimulateError> {
        let chunk = self.chunk();
        let flight = self.flights.of(id);
        let gateway = &mut self.gateways[flight.gateway];
        let waits = gateway.router.wait(request(flight, chunk), wait, self.now);
        let ticket = match waits {
            Ok(ticket) => ticket,
            Err(refusal) => return self.refuse(id, unqueued(refusal)),
        };
        gateway.waiting.insert(ticket, id);
        self.agenda.enter(self.now + wait.time.patience, Event::Expired);
        self.agenda.enter(self.now + wait.time.most, Event::Expired);
        self.call_on();
        Ok(())
    }

    pub(super) fn refuse(&mut self, id: FlightId, cause: Cause) -> Result<(), SimulateError> {
        self.flights.of(id).lose(Fate::Refused, cause);
        self.end(id)
    }

    pub(super) fn place(&mut self, id: FlightId, strictness: Strictness) -> Result<Placed, Choice> {
        let chunk = self.chunk();
        let flight = self.flights.of(id);
        let settings = strictness.over(&self.scenario.routing);
        let (tried, turn) = (flight.tried, retry::turn(&flight.tried));
        let request = request(flight, chunk);
        let router = &mut self.gateways[flight.gateway].router;
        let mut placed =
            router.place(request, &settings, Attempted { tried: &tried, turn }, self.now)?;
        router.remember(&mut placed, request.prompt, self.now);
        Ok(placed)
    }

    pub(super) fn send(&mut self, id: FlightId, placed: Placed) {
        let flight = self.flights.of(id);
        flight.keys = Vec::new();
        (flight.worker, flight.is_placed) = (placed.worker().index(), true);
        flight.placed = Some(Box::new(placed));
        let tokens = u64::from(flight.prompt_tokens.get());
        let ingest = tokens.saturating_mul(self.scenario.ingest_ns_per_token);
        let ingest = Micros::new(ingest / 1_000);
        let looked_up = match (&flight.key, self.scenario.cache) {
            (Some(_), Some(cache)) => cache.takes,
            _ => Micros::ZERO,
        };
        let at = self.now + self.scenario.network + ingest + looked_up;
        self.agenda.enter(at, Event::Delivered(id));
        self.note_held(id);
        self.watch_for_lateness(id);
    }

    /// Something has ended, is known better, or is over: requests that wait may try again.
    pub(super) fn call_on(&mut self) {
        for gateway in 0..self.gateways.len() {
            if !self.gateways[gateway].waiting.is_empty() {
                self.call_on_at(gateway);
            }
        }
    }

    fn call_on_at(&mut self, at: usize) {
        let Gateway { router, waiting, .. } = &mut self.gateways[at];
        let over = router.expire(self.now);
        let over: Vec<_> = over.iter().filter_map(|ticket| waiting.remove(ticket)).collect();
        for id in over {
            self.flights.of(id).lose(Fate::Refused, Cause::WaitedTooLong);
            self.agenda.enter(self.now, Event::Ended(id));
        }
        let (chunk, routing) = (self.chunk(), self.scenario.routing);
        while let Some(ticket) = self.gateways[at].router.call(self.now) {
            let Gateway { router, waiting, .. } = &mut self.gateways[at];
            let id = *waiting.get(&ticket).expect("whoever waits is a request");
            let asked = request(self.flights.of(id), chunk);
            match router.place_called(ticket, asked, &routing, self.now) {
                Ok(mut placed) => {
                    router.remember(&mut placed, asked.prompt, self.now);
                    waiting.remove(&ticket);
                    self.send(id, placed);
                }
                Err(Choice::Saturated { .. }) => {}
                Err(choice) => {
                    waiting.remove(&ticket);
                    self.flights.of(id).lose(Fate::Refused, unplaced(choice));
                    self.agenda.enter(self.now, Event::Ended(id));
                }
            }
        }
    }

    /// An answer is over, a client's or a cascade's.
    pub(super) fn end(&mut self, id: FlightId) -> Result<(), SimulateError> {
        let mut flight = self.flights.remove(id);
        if let Some(placed) = flight.placed.take() {
            let worker = placed.worker();
            let outcome = match flight.fate {
                _ if matches!(flight.role, Role::GivenUp | Role::Left) => {
                    Outcome::of(Ending::Abandoned)
                }
                Fate::Completed => Outcome {
                    ending: Ending::Answered,
                    prompt: Some(flight.prompt_tokens),
                    cached: Some(flight.cached),
                    completion: Tokens::new(flight.said).checked_sub(flight.continues),
                },
                Fate::Refused | Fate::Failed => {
                    Outcome::of(flight.failure.map_or(Ending::Declined, Ending::Failed))
                }
            };
            self.gateways[flight.gateway].router.end(*placed, outcome, self.now);
            if self.hand_on(&mut flight) {
                return Ok(());
            }
            let Some(over) = self.ask_again(flight, worker) else { return Ok(()) };
            flight = over;
        }
        let given = match flight.role {
            Role::GivenUp | Role::Left => None,
            Role::Draft => self.draft_ended(flight)?,
            Role::Score => self.scored(&flight)?,
            Role::Target => {
                self.target_ended(&mut flight);
                Some(flight)
            }
        };
        given.map_or(Ok(()), |flight| self.go_on(&flight))
    }

    /// A worker has the prompt that was sent to it: for another it is spelled anew.
    pub(super) fn spell_again(&mut self, flight: &mut Flight, visit: VisitId) {
        let said = Piece { tokens: flight.continues, ..flight.answer };
        self.spell(flight, visit, said);
    }

    /// Spells a visit's prompt, and what of its answer is said already.
    pub(super) fn spell(&mut self, flight: &mut Flight, visit: VisitId, said: Piece) {
        let Visit { session, turn, .. } = self.visits.of(visit);
        flight.prompt.clear();
        spell_all(&session.turns[*turn].prompt, &mut flight.prompt);
        spell_all(&[said], &mut flight.prompt);
        flight.keys = self.keys(&flight.prompt);
    }

    /// An answer is given: it is recorded, and its session goes on.
    fn go_on(&mut self, flight: &Flight) -> Result<(), SimulateError> {
        let Some(visit_id) = flight.visit else { return Ok(()) };
        if flight.is_counted() {
            self.record(flight);
        }
        if let (Some(answers), Some(key), Fate::Completed, Origin::Worker) =
            (&mut self.answers, flight.key, flight.fate, flight.source)
        {
            answers.keep(key, Tokens::new(flight.said), self.now);
        }
        if flight.leads {
            self.share(flight)?;
        }
        if flight.fate == Fate::Completed {
            self.remember_answer(flight);
        }
        let visit = self.visits.of(visit_id);
        visit.turn += 1;
        // Who got no answer does not go on talking.
        let is_answered = flight.fate == Fate::Completed;
        let following = visit.session.turns.get(visit.turn).filter(|_| is_answered);
        if let Some(due) = following.map(|turn| self.now + turn.think) {
            // What is left of a session then counts as little as sessions that would come later.
            if self.is_over(due) {
                self.visits.remove(visit_id);
            } else {
                self.agenda.enter(due, Event::Due(visit_id));
            }
            return Ok(());
        }
        let visit = self.visits.remove(visit_id);
        if flight.is_counted() {
            self.recorder.unasked(length(visit.session.turns.len().saturating_sub(visit.turn)));
        }
        let wait = if is_answered { Micros::ZERO } else { self.scenario.refused_wait };
        match self.scenario.pace {
            Pace::Open => Ok(()),
            Pace::Closed(_) | Pace::Timed(_) => self.admit_next(self.now + wait),
        }
    }
}

/// A request as routing sees it.
pub(super) fn request(flight: &Flight, chunk: BlockSize) -> Request<'_> {
    Request {
        model: flight.role.model(),
        prompt: Prompt::Counted { tokens: flight.prompt_tokens, chain: &flight.keys, block: chunk },
        limit: Some(flight.limit.get()),
        choices: 1,
        first_token: FirstToken::Seen,
        session: Some(flight.session),
        dice: flight.dice,
        priority: flight.sender.priority.unwrap_or_default(),
        tenant: tenant(flight),
        kind: Kind::default(),
    }
}

/// Whose a request is, as a number; zero is nobody's in particular.
fn tenant(flight: &Flight) -> Tenant {
    Tenant(flight.sender.tenant.map_or(0, |place| u64::from(place) + 1))
}

/// The same request once more, as it was before it was sent.
pub(super) fn unsent(flight: &Flight) -> Flight {
    Flight {
        placed: None,
        other: None,
        prompt: flight.prompt.clone(),
        keys: flight.keys.clone(),
        said: flight.continues.get(),
        first: None,
        cached: Tokens::ZERO,
        joins: None,
        tried: Tried::default(),
        failure: None,
        pressure: None,
        fate: Fate::Completed,
        cause: None,
        ..*flight
    }
}
