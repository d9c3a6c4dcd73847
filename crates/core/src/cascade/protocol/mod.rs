//! Cascade protocol: the state machine of one request, from its arrival to the end of its answer.
//!
//! The shell reports events and executes actions; which follows from which is decided here. Gateway and simulator
//! drive the same machine, so that windows, verification and hand-over are simulated as they are served.
//! Invariant: the same events at the same times, of all requests of a cascade in their order, give the same actions.
//! `docs/design/cascade.md`, P1 to P4.
//!
//! ```text
//!            ask draft           show                    end
//!  Arrived ───────────▶ Drafting ─────▶ Showing ──────────────────▶ Ended
//!     │                  │     ▲ score    │  ▲ score, show            ▲
//!     │ ask target       │     └──┐       │  └──┐                    │
//!     │                  │     Scoring    │  Scoring                 │
//!     ▼                  ▼                ▼                          │
//!  Answering ◀───────────┘            Continuing ────────────────────┘
//!              ask target              hand over
//! ```
//!
//! | subject                                 | file            |
//! |-----------------------------------------|-----------------|
//! | Terms of a request and its events       | `event.rs`      |
//! | Actions                                 | `action.rs`     |
//! | Draft that a client waits for           | `drafting.rs`   |
//! | Comparison of a draft with the target   | `comparison.rs` |

mod action;
mod comparison;
mod drafting;
mod event;

use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Ratio, Tokens};

pub use self::action::{Action, Cause, DraftCall, Outcome};
use self::comparison::Comparing;
use self::drafting::Phase;
pub use self::event::{
    Continuation, Event, Rejected, RequestDraws, Said, Scored, Terms, Tokenizers,
};
use super::class::{Bound, Delivery};
use super::early_termination::Stands;
use super::evidence::Evidence;
use super::gate::{Ask, Cascade, Judgement, Moment};
use super::label_journal::Journal;
use super::mode::Mode;
use super::parity::Parity;
use super::streaming_release::Release;
use super::threshold::{Bar, Choice};

/// Minimum silence that is allowed to a draft of which the client has seen something: to change the model costs more.
const SILENCE_MIN: Micros = Micros::new(2_000_000);

/// One request's way through a cascade.
///
/// ```
/// use overdraft_core::cascade::{
///     Action, Cascade, Cause, Event, Exclusion, Exclusions, Journal, Mode, Protocol, RequestDraws,
///     Settings, Terms, Tokenizers, Traits, Windows,
/// };
/// use overdraft_units::{Instant, Tokens};
///
/// let mut cascade = Cascade::new(Settings { mode: Mode::Gate, ..Settings::default() });
/// let terms = Terms {
///     traits: Traits::default(),
///     exclusions: Exclusions::NONE.with(Exclusion::Tools),
///     tokenizers: Tokenizers::Same,
///     is_greedy: false,
///     is_continuable: true,
///     windows: Windows { first: Tokens::new(24), next: Tokens::new(48) },
///     bar: None,
///     prefill_from: None,
///     draws: RequestDraws::default(),
/// };
/// let (mut journal, now) = (Journal::new(0), Instant::ORIGIN);
/// let mut request = Protocol::new(&cascade, terms, now);
/// let actions = request.handle(&mut cascade, &mut journal, Event::Arrived, now);
/// assert_eq!(actions, [Action::AskTarget(Cause::Excluded("tools"))]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Protocol {
    terms: Terms,
    phase: Phase,
    /// When the request arrived.
    arrived: Instant,
    /// How long the draft may take to its verdict.
    limit: Micros,
    evidence: Evidence,
    release: Release,
    stands: Stands,
    judgement: Option<Judgement>,
    /// Whether the target can continue after the draft's tokens.
    can_continue: bool,
    /// Draft tokens that were shown (gate), or that the target has accepted (verify).
    kept: Tokens,
    /// Draft tokens that were told by id.
    told: Tokens,
    is_shown: bool,
    is_handed_over: bool,
    target: Option<TargetTimes>,
    comparing: Option<Comparing>,
}

/// When the target was asked for its own answer, and when its first token came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TargetTimes {
    asked: Instant,
    first: Option<Instant>,
}

/// What an event is handled with: what the cascade has learnt, and the time.
struct Scene<'learnt> {
    cascade: &'learnt mut Cascade,
    journal: &'learnt mut Journal,
    now: Instant,
}

impl Protocol {
    /// A request that arrives at `now`; [`Event::Arrived`] comes first.
    pub fn new(cascade: &Cascade, terms: Terms, now: Instant) -> Self {
        Self {
            phase: Phase::Arriving,
            arrived: now,
            limit: Micros::ZERO,
            evidence: cascade.evidence(terms.traits),
            release: Release::new(terms.windows),
            stands: Stands::default(),
            judgement: None,
            can_continue: false,
            kept: Tokens::ZERO,
            told: Tokens::ZERO,
            is_shown: false,
            is_handed_over: false,
            target: None,
            comparing: None,
            terms,
        }
    }

    /// Takes in what has happened: what is to be done, in this order.
    pub fn handle(
        &mut self,
        cascade: &mut Cascade,
        journal: &mut Journal,
        event: Event,
        now: Instant,
    ) -> Vec<Action> {
        let scene = &mut Scene { cascade, journal, now };
        match event {
            Event::Arrived => self.arrive(scene),
            Event::Opened(continuation) => self.opened(scene, continuation),
            Event::Said(said) if self.is_drafting() => self.draft_said(scene, &said),
            Event::Said(said) => self.compared_draft_said(scene, &said),
            Event::Failed(rejected, resumes) if self.is_drafting() => {
                self.rejected(scene, rejected, resumes)
            }
            Event::Failed(rejected, _) => self.compared_draft_failed(scene, rejected),
            Event::Late if self.is_drafting() => {
                self.rejected(scene, Rejected::Failed("late"), None)
            }
            Event::Late => self.compared_draft_failed(scene, Rejected::Failed("late")),
            Event::Scored(scored) => self.scored(scene, &scored),
            Event::Left => self.left(scene),
            Event::Ended => self.ended(scene),
            Event::BrokeOff => self.broke_off(scene),
            Event::TargetBegan => self.target_began(scene),
            Event::TargetEnded => self.target_ended(scene),
            Event::CompareBegan => self.compare_began(scene),
            Event::Compared(label) => self.compared(scene, label),
        }
    }

    /// What is known of the request from its arrival on.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Draft tokens that are kept: those that were shown, or that the target has accepted.
    pub const fn kept(&self) -> Tokens {
        self.kept
    }

    /// Whether the target can continue after the draft's tokens.
    pub const fn can_continue(&self) -> bool {
        self.can_continue
    }

    /// Whether the target continues what the draft has said.
    pub const fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// The verdict on the draft's answer, once there is one.
    pub const fn judgement(&self) -> Option<Judgement> {
        self.judgement
    }

    /// How long a draft of which something was shown may be silent.
    pub fn silence(&self) -> Micros {
        self.limit.max(SILENCE_MIN)
    }

    /// Who has answered, where a draft was accepted.
    pub fn outcome(&self, mode: Mode) -> Outcome {
        match (mode, self.is_handed_over) {
            (Mode::Verify, _) => Outcome::Verified,
            (_, false) => Outcome::Draft,
            (_, true) => Outcome::HandedOver,
        }
    }

    fn target_began(&mut self, scene: &Scene<'_>) -> Vec<Action> {
        if let Some(target) = &mut self.target
            && self.terms.traits.delivery == Delivery::Streamed
        {
            target.first = Some(scene.now);
        }
        Vec::new()
    }

    fn target_ended(&mut self, scene: &mut Scene<'_>) -> Vec<Action> {
        if let Some(target) = self.target.take() {
            let first = target.first.map(|first| first.since(target.asked));
            let end = scene.now.since(target.asked);
            scene.cascade.payback_mut().handle_target(&self.terms.traits, first, end);
        }
        Vec::new()
    }

    /// Why no draft may answer; nothing where one may.
    fn exclusion(&self, mode: Mode) -> Option<&'static str> {
        let verifiable = self.terms.is_continuable && self.terms.is_greedy;
        match (self.terms.exclusions.first(), mode) {
            (Some(reason), _) => Some(reason.name()),
            (None, Mode::Verify) if !verifiable => Some("not_greedy"),
            (None, Mode::Verify) if self.terms.tokenizers != Tokenizers::Same => Some("tokenizers"),
            (None, _) if self.terms.tokenizers == Tokenizers::Refused => Some("tokenizers"),
            (None, _) => None,
        }
    }

    /// Whether the draft would be asked if anybody knew its tokenizer: a worker of it would tell. One that is switched off
    /// is missed by its trials alone.
    pub fn misses_draft(&self, cascade: &Cascade, parity: &Parity) -> bool {
        *parity == Parity::NotKnown
            && self.exclusion(cascade.settings().mode) == Some("tokenizers")
            && self.choose(cascade) != Ask::Target
    }

    /// Whom to ask first. A threshold that is set by hand needs no labels.
    fn choose(&self, cascade: &Cascade) -> Ask {
        let Terms { traits, draws, .. } = &self.terms;
        let is_fixed = self.terms.bar.is_some() && cascade.settings().mode == Mode::Gate;
        let ask = if is_fixed {
            cascade.ask_at_fixed_bar(traits, draws.ask)
        } else {
            cascade.ask(traits, draws.ask)
        };
        match ask {
            Ask::Beside(_) if !compares(cascade) => Ask::Target,
            ask => ask,
        }
    }

    /// Whose answer is given, by the threshold that holds.
    fn judge(&self, cascade: &mut Cascade, moment: Moment, ask: Ask, drawn: u64) -> Judgement {
        let mut judgement = cascade.judge(moment, &self.evidence, ask, drawn);
        if let Some(fixed) = self.terms.bar {
            judgement.bar = Bar::At(fixed);
            judgement.would = judgement.bar.choose(judgement.score);
            if ask == Ask::Draft {
                judgement.serve = judgement.would;
            }
        }
        judgement.checked &= compares(cascade);
        judgement
    }

    /// Whether the target could continue after the draft's tokens, if it knew the prompt's.
    fn may_continue(&self) -> bool {
        let Terms { is_continuable, tokenizers, traits, .. } = &self.terms;
        *is_continuable && *tokenizers == Tokenizers::Same && traits.bound != Bound::Schema
    }

    /// The score so far, and what it must reach.
    fn running(&self, cascade: &Cascade) -> (Ratio, Bar) {
        let bar = cascade.bar(Moment::Whole, &self.terms.traits);
        let bar = self.terms.bar.map_or(bar, Bar::At);
        (cascade.score(Moment::Whole, &self.evidence), bar)
    }

    fn is_streamed(&self) -> bool {
        self.terms.traits.delivery == Delivery::Streamed
    }
}

impl Tokenizers {
    /// What a comparison of the tokenizers allows, where different ones may or may not be used.
    pub fn of(parity: &Parity, allows_any: bool) -> Self {
        match parity {
            Parity::Same => Self::Same,
            Parity::Different(_) if !allows_any => Self::Refused,
            Parity::Different(_) | Parity::NotKnown => Self::Apart,
        }
    }
}

/// Whether anything is ever compared.
fn compares(cascade: &Cascade) -> bool {
    cascade.settings().shadow.start != Ratio::NONE
}

/// Whether a draft's answer is given.
const fn is_given(judgement: &Judgement) -> bool {
    matches!(judgement.serve, Choice::Draft)
}
