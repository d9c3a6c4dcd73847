//! Simulated draft model: its drafts are accepted at the scenario's rate.
//!
//! `scheduler::speculate` decides the draft depth, and the scheduler which drafted tokens are
//! verified, as in the engine. Acceptance is drawn by text and position, so it does not depend on
//! the depth of drafts.

use std::collections::BTreeMap;

use overdraft_gpu_model::{Batch, Chunk, Profile};
use overdraft_scheduler::batch::Scheduler;
use overdraft_scheduler::speculate::{
    Acceptance, Controller, CostCurve, Drafter, Load, Nanos, Pass, Prospect, Ran, StepCosts, Trial,
};
use overdraft_units::{Instant, Micros, Ratio, SequenceId, TokenId, Tokens};

use super::bounds::VOCABULARY;
use super::error::SimulateError;
use super::scenario::Speculation;
use crate::workload::{Piece, named};

/// Numbers of rows at which the profile is asked what a step costs, as the engine asks its backend.
const ROWS: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

/// Positions before each row when it is asked, as there.
const CONTEXT: Tokens = Tokens::new(128);

/// Tells draws of guesses from other names.
const STREAM: u64 = 0x6775_6573;

/// What an answer says, and how much of it is said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) answer: Piece,
    pub(super) tokens: u32,
    /// Which kind of text, by its session.
    pub(super) session: u64,
}

/// Guesses so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guesses {
    /// Tokens that were put to the test.
    pub drafted: u64,
    /// Those of them that were right.
    pub right: u64,
    /// Steps of sequences that decoded, with guesses and without.
    pub steps: u64,
    /// Tokens that these brought.
    pub tokens: u64,
}

impl Guesses {
    /// Both together.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            drafted: self.drafted + other.drafted,
            right: self.right + other.right,
            steps: self.steps + other.steps,
            tokens: self.tokens + other.tokens,
        }
    }
}

/// Guesses for the sequences of one worker.
#[derive(Debug)]
pub(super) struct Guesser {
    settings: Speculation,
    controller: Controller,
    seen: BTreeMap<SequenceId, [Acceptance; 2]>,
    /// Tokens drafted for each answer under way, and those of them that it kept.
    kept: BTreeMap<SequenceId, (u64, u64)>,
    /// What is known of the step under way: passes of the draft model, and rows.
    passes: usize,
    pub(super) guesses: Guesses,
}

impl Guesser {
    pub(super) fn new(settings: &Speculation, profile: &Profile) -> Result<Self, SimulateError> {
        if settings.acceptance.iter().any(Vec::is_empty) || settings.acceptance.is_empty() {
            return Err(SimulateError::NoAcceptance);
        }
        let mut chances = settings.acceptance.iter().flatten();
        if let Some(wrong) = chances.find(|chance| !(0.0..=1.0).contains(*chance)) {
            return Err(SimulateError::Acceptance(*wrong));
        }
        let one = Chunk { before: CONTEXT, length: Tokens::new(1), samples: true };
        let verify = |rows: u32| {
            let batch: Batch = (0..rows).map(|_| one).collect();
            (rows, nanos(profile, &batch))
        };
        let pass = settings.pass.get() * 1_000;
        let costs = StepCosts {
            verify: CostCurve::new(ROWS.map(verify).to_vec()),
            draft: CostCurve::new(vec![(1, pass), (ROWS[ROWS.len() - 1], pass)]),
            ..StepCosts::default()
        };
        let controller = Controller::new(settings.policy.clone(), settings.depth_max, costs);
        let (seen, kept, guesses) = (BTreeMap::new(), BTreeMap::new(), Guesses::default());
        Ok(Self { settings: settings.clone(), controller, seen, kept, passes: 0, guesses })
    }

    /// Hands the scheduler guesses for the next plan; the last one left so many waiting.
    pub(super) fn propose(
        &mut self,
        now: Instant,
        scheduler: &mut Scheduler,
        left_behind: u32,
        said: impl Fn(SequenceId) -> Option<Said>,
    ) {
        let ids: Vec<(SequenceId, Said)> =
            scheduler.decoding().filter_map(|id| Some((id, said(id)?))).collect();
        let Self { settings, controller, seen, .. } = self;
        for (id, _) in &ids {
            seen.entry(*id).or_default();
        }
        let model = controller.depth_max();
        let prospect = |(id, said): &(SequenceId, Said)| Prospect {
            class: kind(settings, said.session),
            seen: &seen[id],
            lookup: 0,
            model,
            backlog: 0,
        };
        let prospects: Vec<Prospect<'_>> = ids.iter().map(prospect).collect();
        let stats = scheduler.stats();
        let load = Load {
            room: scheduler.draft_room(),
            // Who came since the last plan may join in the next one, as in the engine.
            waiting: stats.waiting.min(left_behind),
            held: Ratio::of(stats.blocks_held.get().into(), stats.blocks.get().into()),
            preemptions: stats.preemptions,
        };
        let decision = controller.decide(now, &load, &prospects);
        self.passes = 0;
        for ((id, said), grant) in ids.iter().zip(decision.grants) {
            let depth = Tokens::new(u32::try_from(grant.depth).unwrap_or(u32::MAX));
            if grant.drafter != Drafter::Model || depth == Tokens::ZERO {
                continue;
            }
            let depth = scheduler.reserve(*id, depth).get();
            let drafts: Vec<TokenId> = (0..depth).map(|place| self.guess(said, place)).collect();
            self.passes = self.passes.max(drafts.len());
            if !drafts.is_empty() {
                scheduler.handle_drafts(*id, drafts);
            }
        }
    }

    /// A guess at the token that comes in so many places.
    fn guess(&self, said: &Said, place: u32) -> TokenId {
        let at = said.tokens + place;
        let right = said.answer.token(at, VOCABULARY);
        let kind = usize::try_from(kind(&self.settings, said.session)).unwrap_or(0);
        let chances = &self.settings.acceptance[kind];
        let deepest = chances.len() - 1;
        let chance = chances[usize::try_from(place).unwrap_or(deepest).min(deepest)];
        let drawn = named(&[STREAM, said.answer.content, u64::from(at)]) >> 11;
        if crate::float_conversion::float(drawn) * (f64::EPSILON / 2.0) < chance {
            return right;
        }
        // No token of the vocabulary.
        TokenId(VOCABULARY)
    }

    /// What guessing for the step under way takes.
    pub(super) fn takes(&self) -> Micros {
        Micros::new(self.settings.pass.get() * crate::float_conversion::length(self.passes))
    }

    /// Takes note of what a sequence's drafts came to.
    pub(super) fn learn(&mut self, sequence: SequenceId, session: u64, came: &Came) {
        self.guesses.steps += 1;
        self.guesses.tokens += u64::from(came.emitted);
        let drafted = came.drafted.min(usize::try_from(came.emitted).unwrap_or(usize::MAX));
        if drafted == 0 {
            return;
        }
        let right = came.right.min(drafted);
        self.guesses.drafted += crate::float_conversion::length(drafted);
        self.guesses.right += crate::float_conversion::length(right);
        if let Some(seen) = self.seen.get_mut(&sequence) {
            seen[Drafter::Model.place()].observe(drafted, right);
        }
        let class = kind(&self.settings, session);
        self.controller.learn(Trial { class, drafter: Drafter::Model, drafted, right });
        self.controller.note_used(drafted, right);
        let kept = self.kept.entry(sequence).or_default();
        kept.0 += crate::float_conversion::length(came.drafted);
        kept.1 += crate::float_conversion::length(right);
    }

    /// Takes note of what the target took for a step, and the passes before it.
    pub(super) fn measure(&mut self, ran: &Ran, took: Micros) {
        let pass = Pass { guessing: 1, ..Pass::default() };
        let passes = vec![(pass, self.settings.pass.get() * 1_000); self.passes];
        self.controller.measure_draft(&passes);
        self.controller.measure(ran, took.get() * 1_000);
    }

    /// A sequence has ended.
    pub(super) fn forget(&mut self, sequence: SequenceId) {
        self.seen.remove(&sequence);
        if let Some((drafted, accepted)) = self.kept.remove(&sequence) {
            self.controller.note_answer(drafted, accepted);
        }
    }
}

/// What one sequence's slot came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Guesses that were verified.
    pub(super) drafted: usize,
    /// Those before the first wrong one.
    pub(super) right: usize,
    /// Tokens that follow now.
    pub(super) emitted: u32,
}

fn nanos(profile: &Profile, batch: &Batch) -> Nanos {
    u64::try_from(profile.step(batch).as_nanos()).unwrap_or(u64::MAX)
}

/// Which kind of text a session is of.
fn kind(settings: &Speculation, session: u64) -> u64 {
    let kinds = crate::float_conversion::length(settings.acceptance.len());
    named(&[STREAM, session]) % kinds.max(1)
}
