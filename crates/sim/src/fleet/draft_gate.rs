//! Gatekeeper of a draft pool: what drafts are worth, and which of them are given.

use overdraft_core::cascade::{
    Ask, Cascade, Choice, Delivery, Evidence, Finish, Judgement, Label, LogProb, Moment, Nats,
    Observation, Settings, Traits, Upshot, Waited,
};
use overdraft_gpu_model::Profile;
use overdraft_units::{Micros, Tokens};

use super::request_slab::{Flight, Origin};
use crate::Draws;
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
    pub(super) gate: Cascade,
    kinds: Vec<RequestKind>,
    pub(super) drafts: Drafts,
}

impl Gatekeeper {
    pub(super) fn new(settings: &Cascading) -> Self {
        let kinds = settings.kinds.clone();
        Self { gate: Cascade::new(settings.settings), kinds, drafts: Drafts::default() }
    }

    /// Whether the draft pool is asked for a request with such a number of its own.
    pub(super) fn ask(&mut self, dice: u64, prompt: Tokens) -> Ask {
        let asked = self.gate.ask(&traits(prompt), named(&[dice, ASK]));
        self.drafts.asked += u64::from(asked != Ask::Target);
        if asked == Ask::Draft {
            self.gate.payback_mut().handle_start();
        }
        asked
    }

    /// It is known what becomes of a draft: of one that failed without taking anybody's time nothing is learnt.
    pub(super) fn drafted(&mut self, flight: &Flight, took: Micros, asked: Ask, upshot: Upshot) {
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
    pub(super) fn judge(
        &mut self,
        dice: u64,
        prompt: Tokens,
        output: Tokens,
        asked: Ask,
    ) -> Judgement {
        let kind = self.kind(dice);
        let evidence = self.evidence(dice, kind, prompt, output);
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
    fn evidence(&self, dice: u64, kind: RequestKind, prompt: Tokens, output: Tokens) -> Evidence {
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
pub(super) fn traits(prompt: Tokens) -> Traits {
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
