//! A draft pool before the target's: who is asked first, and whose answer is given.
//!
//! What to ask and what to believe decides `core::cascade`, as it does live. What a draft says about its own
//! certainty and how often it is worse is not known without models: the scenario says it, for each kind of
//! request. A draft is judged when it is whole, so a client sees its first token then. One that is given up ends with its
//! next token: until then it takes its place among the draft workers' requests, as one whose connection is gone may.

use overdraft_core::cascade::{
    Ask, Cascade, Choice, Delivery, Evidence, Finish, Judgement, Label, LogProb, Moment, Nats,
    Observation, Settings, Traits, Upshot, Waited,
};
use overdraft_silicon::Profile;
use overdraft_units::{Micros, Tokens};

use super::agenda::{Event, FlightId};
use super::flight::{Flight, Origin, Role};
use super::requests::unsent;
use super::scenario::SimulateError;
use super::simulation::Simulation;
use crate::Draws;
use crate::report::Fate;
use crate::workload::named;

/// Tokens of a draft that are looked at: more change no quantile by much.
const OBSERVED_MAX: u32 = 96;

/// Streams of a request's draws.
const KIND: u64 = 0x6b69_6e64;
const WORSE: u64 = 0x776f_7273;
const ASK: u64 = 0x6173_6b00;
const JUDGE: u64 = 0x6a75_6467;

/// A draft pool, and what its answers are worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Cascading {
    /// What each draft worker is.
    pub draft: Profile,
    /// How many there are; 1 or more.
    pub workers: u32,
    /// How the gate is meant.
    pub settings: Settings,
    /// Kinds of requests.
    pub kinds: Vec<RequestKind>,
}

/// Requests that are alike to the draft model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestKind {
    /// How often they come, beside the others.
    pub weight: f64,
    /// The chance that the draft's answer is worse than the target's.
    pub worse: f64,
    /// The mean surprise of a token that the draft says, in nats.
    pub surprise: f64,
}

/// What came of drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drafts {
    /// Requests that were put to the draft pool.
    pub asked: u64,
    /// Those that got its answer.
    pub served: u64,
    /// Those of them whose answer was worse than the target's.
    pub worse: u64,
}

/// The gate, with what it judges.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    gate: Cascade,
    kinds: Vec<RequestKind>,
    pub(super) drafts: Drafts,
}

impl Gatekeeper {
    pub(super) fn new(settings: &Cascading) -> Self {
        let kinds = settings.kinds.clone();
        Self { gate: Cascade::new(settings.settings), kinds, drafts: Drafts::default() }
    }

    /// Whether the draft pool is asked for a request with such a number of its own.
    fn ask(&mut self, dice: u64, prompt: Tokens) -> Ask {
        let asked = self.gate.ask(&traits(prompt), named(&[dice, ASK]));
        self.drafts.asked += u64::from(asked != Ask::Target);
        if asked == Ask::Draft {
            self.gate.payback_mut().handle_start();
        }
        asked
    }

    /// It is known what becomes of a draft: of one that failed without taking anybody's time nothing is learnt.
    fn drafted(&mut self, flight: &Flight, (took, asked): (Micros, Ask), upshot: Upshot) {
        let traits = traits(flight.prompt_tokens);
        let waited = if asked == Ask::Draft { Waited::Client } else { Waited::Nobody };
        let payback = self.gate.payback_mut();
        match (upshot, flight.is_placed) {
            (Upshot::Failed, false) if waited == Waited::Client => {
                payback.handle_left(&traits, Micros::ZERO);
            }
            (Upshot::Failed, false) => {}
            _ => payback.handle_verdict(&traits, took, upshot, waited),
        }
        if upshot == Upshot::Given || (waited == Waited::Nobody && upshot != Upshot::Failed) {
            payback.handle_draft_end(&traits, took, waited);
        }
    }

    /// The target has answered.
    pub(super) fn told(&mut self, flight: &Flight) {
        if flight.visit.is_some() && flight.source == Origin::Worker {
            let first = flight.first.map(|first| first.since(flight.asked));
            let end = flight.last.since(flight.asked);
            let traits = traits(flight.prompt_tokens);
            self.gate.payback_mut().handle_target(&traits, first, end);
        }
    }

    /// Whose answer is given, and whether the target is asked to find out what the draft's is worth.
    fn judge(&mut self, dice: u64, (prompt, output): (Tokens, Tokens), asked: Ask) -> Judgement {
        let kind = self.kind(dice);
        let evidence = self.evidence(dice, kind, (prompt, output));
        let drawn = named(&[dice, JUDGE]);
        let judgement = self.gate.judge(Moment::Whole, &evidence, asked, drawn);
        let worse = Draws::new(dice, WORSE).share() < kind.worse;
        if judgement.checked {
            let label = if worse { Label::Worse } else { Label::AsGood };
            let _standing = self.gate.learn(&judgement, &evidence, label);
        }
        if judgement.serve == Choice::Draft {
            self.drafts.served += 1;
            self.drafts.worse += u64::from(worse);
        }
        judgement
    }

    fn kind(&self, dice: u64) -> RequestKind {
        let all: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut left = Draws::new(dice, KIND).share() * all;
        let found = self.kinds.iter().find(|kind| {
            left -= kind.weight;
            left < 0.0
        });
        let last = self.kinds.last().copied();
        found.copied().or(last).unwrap_or(RequestKind { weight: 1.0, worse: 0.0, surprise: 0.0 })
    }

    /// What such a draft says of its own certainty.
    fn evidence(&self, dice: u64, kind: RequestKind, lengths: (Tokens, Tokens)) -> Evidence {
        let (prompt, output) = lengths;
        let mut evidence = self.gate.evidence(traits(prompt));
        let mut draws = Draws::new(dice, JUDGE);
        // Answers of a kind differ from each other, too.
        let mean = draws.lognormal(kind.surprise, 0.4);
        for _ in 0..output.get().min(OBSERVED_MAX) {
            let surprise = draws.exponential(mean);
            evidence.observe(Observation {
                logprob: LogProb::from_nats(-surprise),
                margin: Some(Nats::from_nats(draws.exponential(0.5 / mean.max(0.05)))),
                entropy: Some(Nats::from_nats(surprise)),
                digit: false,
            });
        }
        evidence.finish(Finish::Stop);
        evidence
    }
}

/// Clients of a simulated fleet see their answers come.
fn traits(prompt: Tokens) -> Traits {
    Traits { prompt, delivery: Delivery::Streamed, ..Traits::default() }
}

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
        let took = (self.now.since(flight.asked), Ask::Draft);
        if let Some(gatekeeper) = &mut self.gatekeeper {
            gatekeeper.drafted(&flight, took, Upshot::Failed);
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
        let lengths = (flight.prompt_tokens, Tokens::new(flight.said));
        let mut judgement = None;
        if let Some(gatekeeper) = &mut self.gatekeeper {
            if flight.fate == Fate::Completed {
                judgement = Some(gatekeeper.judge(flight.dice, lengths, asked));
            }
            let upshot = judgement.map_or(Upshot::Failed, |one| one.upshot());
            gatekeeper.drafted(&flight, (self.now.since(flight.asked), asked), upshot);
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

impl RequestKind {
    /// Half of all are answered as well by the draft and it says so; the rest less and less.
    pub const ASSUMED: [Self; 3] = [
        Self { weight: 0.7, worse: 0.004, surprise: 0.08 },
        Self { weight: 0.2, worse: 0.15, surprise: 0.35 },
        Self { weight: 0.1, worse: 0.6, surprise: 0.9 },
    ];

    /// Whether its figures can be.
    pub(super) fn is_sound(&self) -> bool {
        let positive = |value: f64| value.is_finite() && 0.0 < value;
        positive(self.weight) && (0.0..=1.0).contains(&self.worse) && positive(self.surprise)
    }
}

/// `weight:worse:surprise`, as in `0.7:0.004:0.08`.
impl std::str::FromStr for RequestKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> = text.split(':').map(|part| part.parse().ok()).collect();
        let kind = match numbers.as_deref() {
            Some(&[weight, worse, surprise]) => Some(Self { weight, worse, surprise }),
            _ => None,
        };
        kind.filter(Self::is_sound).ok_or_else(|| {
            format!(
                "`{text}` is no kind of request; expected WEIGHT:WORSE:SURPRISE, as in \
                 `0.7:0.004:0.08`: how often it comes, the chance that a draft is worse, and nats \
                 that a token of a draft surprises by"
            )
        })
    }
}
