//! Gatekeeper of a draft pool: what drafts are worth, and which of them are given.

use overdraft_core::cascade::{
    Action, Cascade, Choice, Delivery, Event, Exclusions, Journal, Label, LogProb, Mode, Nats,
    Observation, Protocol, RequestDraws, Terms, Tokenizers, Traits, Windows,
};
use overdraft_units::{Instant, Tokens};

use super::cascade::Course;
use super::cascade_scenario::{CascadeScenario, RequestKind};
use super::life_cycle::unsent;
use super::request_slab::Flight;
use crate::Draws;
use crate::workload::named;

/// Tokens that are looked at of a draft that is judged when it is whole: more change no quantile by much.
const OBSERVED_MAX: u32 = 96;

/// Tokens of a window where there is none: more than an answer has.
const UNBOUNDED: Tokens = Tokens::new(1 << 30);

/// Streams of a request's draws.
const KIND: u64 = 0x6b69_6e64;
const WORSE: u64 = 0x776f_7273;
const ASK: u64 = 0x6173_6b00;
const JUDGE: u64 = 0x6a75_6467;
const PROSPECT: u64 = 0x7072_6f73;
const ACCEPT: u64 = 0x6163_6365;

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
    journal: Journal,
    windows: Option<Windows>,
    kinds: Vec<RequestKind>,
    pub(super) drafts: Drafts,
}

/// What a draft says of its own certainty, and what it is worth.
#[derive(Debug)]
pub(super) struct DraftWords {
    certainty: Draws,
    acceptance: Draws,
    /// The mean surprise of its tokens: answers of a kind differ from each other, too.
    mean: f64,
    /// Tokens that may still be looked at.
    left: u32,
    is_worse: bool,
}

impl Gatekeeper {
    pub(super) fn new(settings: &CascadeScenario) -> Self {
        Self {
            gate: Cascade::new(settings.settings),
            journal: Journal::new(0),
            windows: settings.windows,
            kinds: settings.kinds.clone(),
            drafts: Drafts::default(),
        }
    }

    /// A request that arrives now.
    pub(super) fn begin(&self, flight: &mut Flight, now: Instant) -> Course {
        // Its prompt is spelled anew for each who is asked.
        let (prompt, keys) = (std::mem::take(&mut flight.prompt), std::mem::take(&mut flight.keys));
        let client = unsent(flight);
        (flight.prompt, flight.keys) = (prompt, keys);
        let protocol = Protocol::new(&self.gate, self.terms(flight), now);
        Course::new(protocol, self.words(flight.dice), client)
    }

    fn terms(&self, flight: &Flight) -> Terms {
        let drawn = |stream| named(&[flight.dice, stream]);
        let is_verified = self.gate.settings().mode == Mode::Verify;
        let unbounded = Windows { first: UNBOUNDED, next: UNBOUNDED };
        Terms {
            traits: traits(flight.prompt_tokens),
            exclusions: Exclusions::NONE,
            tokenizers: Tokenizers::Same,
            is_greedy: is_verified,
            is_continuable: is_verified || self.windows.is_some(),
            windows: self.windows.unwrap_or(unbounded),
            bar: None,
            prefill_from: None,
            draws: RequestDraws {
                ask: drawn(ASK),
                prospect: drawn(PROSPECT),
                judge: drawn(JUDGE),
                beside: drawn(JUDGE),
            },
        }
    }

    /// Takes in an event of a request: what is to be done.
    pub(super) fn handle(
        &mut self,
        course: &mut Course,
        event: Event,
        now: Instant,
    ) -> Vec<Action> {
        let Self { gate, journal, drafts, .. } = self;
        let actions = course.protocol.handle(gate, journal, event, now);
        // Of a verified answer the target vouches for every token.
        let can_be_worse = gate.settings().mode != Mode::Verify;
        for action in &actions {
            match action {
                Action::AskDraft(_) => drafts.asked += 1,
                Action::CountDraft(Choice::Draft) => {
                    drafts.served += 1;
                    drafts.worse += u64::from(can_be_worse && course.words.is_worse);
                }
                _ => {}
            }
        }
        actions
    }

    fn words(&self, dice: u64) -> DraftWords {
        let kind = self.kind(dice);
        let mut certainty = Draws::new(dice, JUDGE);
        let mean = certainty.lognormal(kind.surprise, 0.4);
        DraftWords {
            certainty,
            acceptance: Draws::new(dice, ACCEPT),
            mean,
            left: if self.windows.is_some() { u32::MAX } else { OBSERVED_MAX },
            is_worse: Draws::new(dice, WORSE).share() < kind.worse,
        }
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
}

impl DraftWords {
    /// What is reported of the next tokens.
    pub(super) fn observe(&mut self, tokens: u32) -> Vec<Observation> {
        let tokens = tokens.min(self.left);
        self.left -= tokens;
        let mut observation = || {
            let surprise = self.certainty.exponential(self.mean);
            Observation {
                logprob: LogProb::from_nats(-surprise),
                margin: Some(Nats::from_nats(
                    self.certainty.exponential(0.5 / self.mean.max(0.05)),
                )),
                entropy: Some(Nats::from_nats(surprise)),
                digit: false,
            }
        };
        (0..tokens).map(|_| observation()).collect()
    }

    /// How many of the next tokens the target accepts: each with the chance that the draft itself gives its tokens on
    /// (geometric) average.
    pub(super) fn accept(&mut self, drafted: u32) -> u32 {
        let chance = (-self.mean).exp();
        let accepted = (0..drafted).take_while(|_| self.acceptance.share() < chance).count();
        u32::try_from(accepted).unwrap_or(drafted)
    }

    /// What the answer is worth beside the target's.
    pub(super) const fn label(&self) -> Label {
        if self.is_worse { Label::Worse } else { Label::AsGood }
    }
}

/// Clients of a simulated fleet see their answers come.
fn traits(prompt: Tokens) -> Traits {
    Traits { prompt, delivery: Delivery::Streamed, ..Traits::default() }
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
