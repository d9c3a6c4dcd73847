//! Speculative decoding in the engine: makes drafts before a step and verifies them after it.
//!
//! Before a plan the controller sets the draft depth of each sequence that decodes; prompt lookup
//! has its tokens already, the draft model computes the others, and the scheduler gets both. After
//! the step the emitted tokens are compared with the drafts, used or not: prompt lookup is judged
//! by every token, whichever drafter was used. **Invariant:** nothing here decides what is emitted;
//! a wrong guess costs time alone (`docs/design/speculation.md`).

mod model;
mod pages;
mod profile;
mod stats;

use std::collections::BTreeMap;

use overdraft_core::estimate::SlidingRatio;
use overdraft_scheduler::batch::{BatchLimits, BatchStats, DraftRoom, Progress, Scheduler};
use overdraft_scheduler::speculate::{
    Acceptance, Controller, Drafter, Grant, Load, Lookup, Policy, Prospect, Pursuit, Ran,
    StepCosts, Trial,
};
use overdraft_telemetry::Clock;
use overdraft_units::{Instant, Micros, Ratio, SequenceId, TokenId, Tokens};

pub use self::profile::PROFILE_MAX;
pub use self::stats::SpeculationStats;

use self::model::{Asked, Draft, DraftModel};
use super::live::Live;
use crate::backend::{Backend, ModelShape};
use crate::sample::Guess;

/// Maximum bytes of logits that drafts may add to a step: bounds the rows where the vocabulary is
/// large.
const DRAFT_LOGITS_MAX: usize = 64 << 20;
/// Minimum rows that drafts may always have.
const DRAFT_ROWS_MIN: usize = 16;
/// Failures of the draft model after which it is switched off for good.
const DRAFT_FAILURES_MAX: u32 = 3;
/// Accepted share below which the operator is told, once.
const POOR: Ratio = Ratio::percent(20);
/// Accepted share above which that may be told again.
const POOR_NO_MORE: Ratio = Ratio::percent(25);
/// Drafted tokens within the window before that is judged.
const POOR_TRIALS: u64 = 200;

/// Who may guess, and by which rule. The default guesses nothing.
pub struct Speculation {
    /// The rule.
    pub policy: Policy,
    /// Tokens of a draft at most.
    pub depth_max: usize,
    /// Looks tokens up in what was said.
    pub lookup: Option<Lookup>,
    /// Guesses by computing: a model with the target's tokenizer, pages as large and as many.
    pub draft: Option<Box<dyn Backend>>,
}

impl Default for Speculation {
    fn default() -> Self {
        Self { policy: Policy::Off, depth_max: 0, lookup: None, draft: None }
    }
}

impl core::fmt::Debug for Speculation {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut fields = out.debug_struct("Speculation");
        fields.field("policy", &self.policy).field("depth_max", &self.depth_max);
        fields.field("lookup", &self.lookup).finish_non_exhaustive()
    }
}

impl Speculation {
    /// Whether there is a drafter.
    pub fn guesses(&self) -> bool {
        0 < self.depth_max && (self.lookup.is_some() || self.draft.is_some())
    }

    /// Whether the draft model's pages and tokens are the target's.
    pub(super) fn check(&self, target: ModelShape) -> Result<(), DraftMismatch> {
        self.draft.as_ref().map_or(Ok(()), |draft| check(target, draft.shape()))
    }
}

/// A draft model that cannot guess for this target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the draft model's {what} is `{found}`; expected {expected}, as the target's")]
pub struct DraftMismatch {
    what: &'static str,
    found: u64,
    expected: String,
}

/// Guesses for one engine.
pub(super) struct Speculator {
    controller: Controller,
    lookup: Option<Lookup>,
    model: Option<DraftModel>,
    failures: u32,
    vocabulary: usize,
    notes: BTreeMap<SequenceId, Note>,
    stats: SpeculationStats,
    /// Accepted of drafted tokens of late, as the gauge of the worker has it.
    recent: SlidingRatio,
    poor: bool,
}

/// What is known of a sequence that decodes.
#[derive(Debug)]
struct Note {
    class: u64,
    seen: [Acceptance; 2],
    /// What a lookup found before this step.
    found: Vec<TokenId>,
    /// What is being verified, and whose it is.
    used: Option<(Drafter, Vec<Guess>)>,
    /// The guess behind those, which was not worth a row.
    dropped: Option<Guess>,
    /// Tokens that were drafted for it so far, and those of them that it kept.
    drafted: u64,
    accepted: u64,
}

/// What a sequence may have guessed for it.
#[derive(Clone, Copy, Debug)]
struct Granted {
    sequence: SequenceId,
    grant: Grant,
    pursuit: Pursuit,
}

/// What the engine looks like from here, before a plan.
pub(super) struct View<'a> {
    pub(super) scheduler: &'a mut Scheduler,
    pub(super) live: &'a mut BTreeMap<SequenceId, Live>,
    pub(super) clock: Clock,
    pub(super) batch: BatchStats,
}

impl Speculator {
    /// Measures what steps cost, which takes at most [`PROFILE_MAX`] and a step for each model.
    /// `None` when there is nobody to guess.
    pub(super) fn new(
        speculation: Speculation,
        target: &mut dyn Backend,
        limits: BatchLimits,
        clock: Clock,
    ) -> Option<Self> {
        if !speculation.guesses() {
            return None;
        }
        let Speculation { policy, depth_max, lookup, draft } = speculation;
        let shape = target.shape();
        let mut costs =
            StepCosts { verify: profile::measure(target, limits, clock), ..StepCosts::default() };
        let model = draft.map(|mut draft| {
            costs.draft = profile::measure(draft.as_mut(), limits, clock);
            costs.read = profile::measure_reading(draft.as_mut(), limits, clock);
            DraftModel::new(draft)
        });
        let controller = Controller::new(policy, depth_max, costs);
        let stats = SpeculationStats { enabled: true, ..SpeculationStats::default() };
        Some(Self {
            controller,
            lookup,
            model,
            failures: 0,
            vocabulary: shape.vocabulary,
            notes: BTreeMap::new(),
            stats,
            recent: SlidingRatio::new(),
            poor: false,
        })
    }

    /// Another rule from the next step on.
    pub(super) fn set_policy(&mut self, policy: Option<Policy>, depth_max: Option<usize>) {
        let policy = policy.unwrap_or_else(|| self.controller.policy().clone());
        let depth_max = depth_max.unwrap_or_else(|| self.controller.depth_max());
        self.controller.set_policy(policy, depth_max);
    }

    /// Hands the scheduler guesses for the next plan.
    pub(super) fn propose(&mut self, view: &mut View<'_>) {
        let mut room = view.scheduler.draft_room();
        let rows = (DRAFT_LOGITS_MAX / (4 * self.vocabulary.max(1))).max(DRAFT_ROWS_MIN);
        room.room = room.room.min(Tokens::new(u32::try_from(rows).unwrap_or(u32::MAX)));
        let ids: Vec<SequenceId> = view.scheduler.decoding().collect();
        for id in &ids {
            let (Some(live), tokens) = (view.live.get(id), view.scheduler.tokens(*id)) else {
                continue;
            };
            let note = self.notes.entry(*id).or_insert_with(|| Note::new(live.class));
            (note.used, note.dropped) = (None, None);
            note.found.clear();
            let lookup = self.lookup.filter(|_| self.controller.wants_lookups());
            if let Some(lookup) = lookup.filter(|_| live.guessing.allows(Drafter::Lookup)) {
                note.found = lookup.guess(tokens, self.controller.depth_max());
            }
        }
        let now = view.clock.now();
        let grants = self.decide(now, view, room, &ids);
        let began = view.clock.now();
        self.hand_lookups(view, &grants);
        self.hand_model(view, &grants);
        self.stats.draft_time += view.clock.now().since(began);
    }

    fn decide(
        &mut self,
        now: Instant,
        view: &View<'_>,
        room: DraftRoom,
        ids: &[SequenceId],
    ) -> Vec<Granted> {
        let depth_max = self.controller.depth_max();
        let prospect = |id: &SequenceId| {
            let (note, live) = (self.notes.get(id)?, view.live.get(id)?);
            let known = view.scheduler.tokens(*id).len();
            let model = self.model.as_ref();
            let model = model.filter(|_| live.guessing.allows(Drafter::Model));
            let able = model.filter(|model| known + depth_max <= model.context());
            let backlog = model.map_or(0, |model| model.backlog(*id, known));
            let prospect = Prospect {
                class: note.class,
                seen: &note.seen,
                lookup: note.found.len(),
                model: able.map_or(0, |_| depth_max),
                backlog: u32::try_from(backlog).unwrap_or(u32::MAX),
            };
            Some((*id, prospect))
        };
        let (ids, prospects): (Vec<_>, Vec<_>) = ids.iter().filter_map(prospect).unzip();
        let blocks = view.batch.blocks.get().max(1);
        let load = Load {
            room,
            waiting: view.batch.waiting,
            held: Ratio::of(view.batch.blocks_held.get().into(), blocks.into()),
            preemptions: view.batch.preemptions,
        };
        let decision = self.controller.decide(now, &load, &prospects);
        let granted = ids.into_iter().zip(decision.grants).zip(decision.pursuits);
        let granted =
            granted.map(|((sequence, grant), pursuit)| Granted { sequence, grant, pursuit });
        granted.filter(|granted| 0 < granted.grant.depth).collect()
    }

    fn hand_lookups(&mut self, view: &mut View<'_>, granted: &[Granted]) {
        let of_lookup = |one: &&Granted| one.grant.drafter == Drafter::Lookup;
        for Granted { sequence: id, grant, .. } in granted.iter().filter(of_lookup) {
            let room = reserve(view.scheduler, *id, grant.depth);
            let Some(note) = self.notes.get_mut(id).filter(|_| 0 < room) else { continue };
            let tokens: Vec<_> = note.found.iter().take(room).copied().collect();
            let guesses = tokens.iter().copied().map(Guess::certain).collect();
            note.used = Some((Drafter::Lookup, guesses));
            view.scheduler.handle_drafts(*id, tokens);
        }
    }

    fn hand_model(&mut self, view: &mut View<'_>, granted: &[Granted]) {
        let Some(model) = &mut self.model else { return };
        let mut asked = Vec::new();
        let of_model = |one: &&Granted| one.grant.drafter == Drafter::Model;
        for Granted { sequence, pursuit, .. } in granted.iter().filter(of_model) {
            let room = reserve(view.scheduler, *sequence, pursuit.most());
            if 0 < room {
                asked.push(Asked { sequence: *sequence, pursuit: pursuit.at_most(room) });
            }
        }
        let drafted = match model.draft(&asked, view) {
            Ok(drafted) => drafted,
            Err(error) => {
                self.failures += 1;
                tracing::error!(%error, "the draft model failed");
                if DRAFT_FAILURES_MAX <= self.failures {
                    tracing::error!("the draft model is not asked again");
                    self.model = None;
                }
                return;
            }
        };
        if !asked.is_empty() {
            let passes = model.take_passes().into_iter();
            let passes: Vec<_> = passes.map(|(pass, took)| (pass, profile::cost(took))).collect();
            self.controller.measure_draft(&passes);
        }
        for Draft { sequence: id, guesses, dropped, .. } in drafted {
            let Some(note) = self.notes.get_mut(&id) else { continue };
            view.scheduler.handle_drafts(id, guesses.iter().map(|guess| guess.token).collect());
            self.stats.dropped_tokens += u64::from(dropped.is_some());
            (note.used, note.dropped) = (Some((Drafter::Model, guesses)), dropped);
        }
    }

    /// The guess at a place of the draft that is being verified.
    pub(super) fn guess(&self, sequence: SequenceId, place: usize) -> Option<&Guess> {
        let (_, guesses) = self.notes.get(&sequence)?.used.as_ref()?;
        guesses.get(place)
    }

    /// Takes note of what a sequence's slot, with so many drafts, came to. Behind the end of a completion
    /// no guess brings anything: there they count as wrong, or where answers are short each row would
    /// look better than it is.
    pub(super) fn learn(
        &mut self,
        sequence: SequenceId,
        drafts: &[TokenId],
        emitted: &[TokenId],
        progress: Progress,
    ) {
        let Some(note) = self.notes.get_mut(&sequence) else { return };
        let right = |guessed: &[TokenId]| {
            guessed.iter().zip(emitted).take_while(|(guess, token)| guess == token).count()
        };
        self.stats.sequence_steps += 1;
        self.stats.tokens += emitted.len() as u64;
        let class = note.class;
        let mut learn = |seen: &mut [Acceptance; 2], drafter: Drafter, guessed: &[TokenId]| {
            let ended = progress == Progress::Finished;
            let tried = if ended { guessed.len() } else { emitted.len() };
            let (drafted, right) = (guessed.len().min(tried), right(guessed));
            seen[drafter.place()].observe(drafted, right);
            self.controller.learn(Trial { class, drafter, drafted, right });
        };
        if !note.found.is_empty() {
            learn(&mut note.seen, Drafter::Lookup, &note.found);
        }
        let Some((drafter, guesses)) = note.used.take() else { return };
        let right = right(drafts);
        if drafter == Drafter::Model {
            // One that was left out is judged as well: it stands where the target chose itself. Not so behind guesses
            // that found no room.
            let whole = drafts.len() == guesses.len();
            let dropped = note.dropped.take().filter(|_| whole);
            let guessed: Vec<&Guess> = guesses[..drafts.len()].iter().chain(&dropped).collect();
            let tokens: Vec<TokenId> = guessed.iter().map(|guess| guess.token).collect();
            learn(&mut note.seen, Drafter::Model, &tokens);
            for (guess, token) in guessed.iter().zip(emitted) {
                if let Some(confidence) = guess.confidence {
                    self.controller.calibrate(class, confidence, guess.token == *token);
                }
            }
            if let Some(model) = &mut self.model {
                model.note_right(sequence, right);
            }
        }
        if !drafts.is_empty() {
            self.controller.note_used(drafts.len().min(emitted.len()), right);
            note.drafted += drafts.len() as u64;
            note.accepted += right as u64;
            self.stats.count(drafter, drafts.len(), right);
        }
    }

    /// Takes note of what the target took for a step.
    pub(super) fn measure(&mut self, ran: &Ran, took: Micros) {
        if ran.beginning == 0 {
            self.stats.verify_time += took;
        }
        self.controller.measure(ran, profile::cost(took));
    }

    /// A sequence ended, or lost its pages: what follows then counts as another answer.
    pub(super) fn forget(&mut self, sequence: SequenceId) {
        if let Some(note) = self.notes.remove(&sequence) {
            self.controller.note_answer(note.drafted, note.accepted);
        }
        if let Some(model) = &mut self.model {
            model.forget(sequence);
        }
    }

    /// The counts, and how things stand.
    pub(super) fn stats(&mut self, now: Instant) -> SpeculationStats {
        let (reason, changes) = self.controller.last_change();
        self.stats.policy = self.controller.policy().name();
        self.stats.depth = u32::try_from(self.controller.depth_in_force()).unwrap_or(u32::MAX);
        self.stats.depth_max = u32::try_from(self.controller.depth_max()).unwrap_or(u32::MAX);
        (self.stats.reason, self.stats.changes) = (reason, changes);
        self.stats.acceptance = Drafter::ALL.map(|drafter| self.controller.acceptance(drafter));
        self.warn_when_poor(now);
        self.stats
    }

    /// By the same share that `vllm_spec_acceptance_rate` tells, whoever guesses.
    fn warn_when_poor(&mut self, now: Instant) {
        let SpeculationStats { accepted_tokens, draft_tokens, .. } = self.stats;
        let Some((accepted, drafted)) = self.recent.read(accepted_tokens, draft_tokens, now) else {
            return;
        };
        let share = Ratio::of(accepted, drafted);
        if POOR_TRIALS <= drafted && !self.poor && share < POOR {
            self.poor = true;
            let accepted = share.factor();
            tracing::warn!(
                accepted,
                "less than a fifth of the drafted tokens of late are accepted"
            );
        }
        self.poor = self.poor && share < POOR_NO_MORE;
    }
}

impl Note {
    fn new(class: u64) -> Self {
        Self {
            class,
            seen: [Acceptance::default(); 2],
            found: Vec::new(),
            used: None,
            dropped: None,
            drafted: 0,
            accepted: 0,
        }
    }
}

fn reserve(scheduler: &mut Scheduler, sequence: SequenceId, depth: usize) -> usize {
    let ahead = Tokens::new(u32::try_from(depth).unwrap_or(u32::MAX));
    let room = scheduler.reserve(sequence, ahead);
    usize::try_from(room.get()).expect("usize holds 32 bits")
}

/// Whether the draft's pages and tokens are the target's.
fn check(target: ModelShape, draft: ModelShape) -> Result<(), DraftMismatch> {
    let hold = |what, found: u64, holds: bool, expected: String| {
        if holds { Ok(()) } else { Err(DraftMismatch { what, found, expected }) }
    };
    let size = |shape: ModelShape| u64::from(shape.block_size.get());
    let blocks = |shape: ModelShape| u64::from(shape.blocks.get());
    let words = |shape: ModelShape| shape.vocabulary as u64;
    let (one, other) = (words(target), words(draft));
    hold("vocabulary", other, one == other, format!("{one}"))?;
    let (one, other) = (size(target), size(draft));
    hold("block size", other, one == other, format!("{one}"))?;
    let (one, other) = (blocks(target), blocks(draft));
    hold("number of blocks", other, one <= other, format!("at least {one}"))
}
