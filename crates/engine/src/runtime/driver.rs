//! Engine thread: the loop `drain inbox; plan; run; learn`, until shutdown.
//!
//! The scheduler decides, the backend computes, the sampler draws; this file only passes data
//! between them. **Invariant:** a sequence is in `live` exactly while the scheduler knows it, and
//! its stream gets exactly one end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use overdraft_scheduler::batch::{
    Arrival, BatchLimits, Logits, Outcome, Plan, Progress, Scheduler, Slot, Verdict,
};
use overdraft_scheduler::speculate::Ran;
use overdraft_telemetry::Clock;
use overdraft_units::{Instant, SequenceId, TokenId, Tokens};

use super::handle::{INBOX_MAX, Letter, Submission, SubmitError};
use super::live::{Last, Live, TokenTime};
use super::observe::{CacheChanges, End, Observation, Observer};
use super::pass::{self, EVERY_ROWS_MAX};
use super::speculate::{Speculation, Speculator, View};
use super::stats::{BreakGuard, EngineStats, Health, Phase, Shared};
use crate::backend::{Backend, BackendError, BatchSlot};
use crate::request::FinishReason;
use crate::sample::position_logprobs;

/// What the engine's thread owns.
pub(super) struct Driver {
    pub(super) backend: Box<dyn Backend>,
    observer: Box<dyn Observer>,
    shared: Arc<Shared>,
    inbox: Receiver<Letter>,
    clock: Clock,
    limits: BatchLimits,
    vocabulary: usize,
    /// What there is to guess with, until it is measured.
    speculation: Option<Speculation>,
    speculator: Option<Speculator>,
    pub(super) scheduler: Scheduler,
    live: BTreeMap<SequenceId, Live>,
    pub(super) stats: EngineStats,
    /// The rows of the last pass.
    logits: Vec<f32>,
    /// Those that ended in this step. They hear of it once the counts are published, so that
    /// a client that hears of an end finds it counted.
    ended: Vec<(Live, Last)>,
}

/// What a row came to.
enum Chosen {
    /// A token, and the sequence goes on.
    Token(TokenId),
    /// A token, the last one.
    Last(TokenId),
    /// None: the row has no number.
    Nothing,
}

/// What the loop keeps time and bounds by, and who guesses ahead in it.
pub(super) struct Parts {
    pub(super) clock: Clock,
    pub(super) limits: BatchLimits,
    pub(super) speculation: Speculation,
}

impl Driver {
    pub(super) fn new(
        backend: Box<dyn Backend>,
        observer: Box<dyn Observer>,
        shared: Arc<Shared>,
        inbox: Receiver<Letter>,
        parts: Parts,
    ) -> Self {
        let Parts { clock, limits, speculation } = parts;
        let scheduler = scheduler(limits, observer.as_ref());
        Self {
            vocabulary: backend.shape().vocabulary,
            backend,
            observer,
            stats: shared.stats(),
            shared,
            inbox,
            clock,
            speculation: Some(speculation),
            speculator: None,
            scheduler,
            limits,
            live: BTreeMap::new(),
            logits: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        // Dropped before the channels: whose stream closes finds the engine broken.
        let _guard = BreakGuard(Arc::clone(&self.shared));
        if catch_unwind(AssertUnwindSafe(|| self.prepare())).is_err() {
            self.break_down();
        }
        while self.drain_inbox() {
            self.sweep();
            if catch_unwind(AssertUnwindSafe(|| self.propose())).is_err() {
                self.break_down();
            }
            let now = self.clock.now();
            let plan = self.scheduler.plan(now);
            if !plan.slots.is_empty() {
                // A panic leaves the backend, and perhaps this step, half done.
                let ran = catch_unwind(AssertUnwindSafe(|| self.step(&plan, now)));
                if ran.is_err() {
                    self.break_down();
                }
            }
            self.publish();
        }
        self.fail_all("the engine was shut down");
        self.publish();
        self.shared.tell_empty();
    }

    /// Measures what drafting costs, where there is a drafter.
    fn prepare(&mut self) {
        let Some(speculation) = self.speculation.take() else { return };
        let backend = self.backend.as_mut();
        self.speculator = Speculator::new(speculation, backend, self.limits, self.clock);
        let now = self.clock.now();
        let speculator = self.speculator.as_mut();
        self.stats.speculation = speculator.map(|one| one.stats(now)).unwrap_or_default();
        self.shared.publish(&self.stats);
    }

    /// Hands the scheduler drafts, where there is a drafter.
    fn propose(&mut self) {
        let Some(speculator) = &mut self.speculator else { return };
        let mut batch = self.scheduler.stats();
        if batch.running == 0 {
            return;
        }
        // Who came since the last plan may join in the next one: only who was left behind waits.
        batch.waiting = batch.waiting.min(self.stats.batch.waiting);
        let (scheduler, live) = (&mut self.scheduler, &mut self.live);
        speculator.propose(&mut View { scheduler, live, clock: self.clock, batch });
    }

    /// Takes what lies in the inbox, waiting for it when there is nothing else to do. `false` when
    /// the engine is to stop.
    fn drain_inbox(&mut self) -> bool {
        if self.live.is_empty() {
            match self.shared.phase() {
                Phase::Serving => {}
                Phase::Draining => self.shared.tell_empty(),
                Phase::Stopping => return false,
            }
            match self.inbox.recv() {
                Ok(letter) => self.open(letter),
                Err(_) => return false,
            }
        }
        for _ in 0..INBOX_MAX {
            match self.inbox.try_recv() {
                Ok(letter) => self.open(letter),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.shared.phase() < Phase::Stopping
    }

    fn open(&mut self, letter: Letter) {
        let submission = match letter {
            Letter::Submission(submission) => submission,
            Letter::Wake => return,
            Letter::Blocks(order) => return self.carry(order),
            Letter::Guess { policy, depth_max } => {
                if let Some(speculator) = &mut self.speculator {
                    speculator.set_policy(policy, depth_max);
                }
                return;
            }
        };
        let Submission { arrival, live, verdict } = *submission;
        if live.is_abandoned() {
            return;
        }
        let answer = self.admit(arrival, live);
        // The client may have gone in the meantime; the sweep notices.
        let _ = verdict.send(answer);
    }

    fn admit(&mut self, arrival: Arrival, live: Live) -> Result<(), SubmitError> {
        if self.stats.health == Health::Broken {
            return Err(SubmitError::Broken);
        }
        if self.shared.phase() > Phase::Serving {
            return Err(SubmitError::Draining);
        }
        let sequence = arrival.sequence;
        match self.scheduler.handle_arrival(live.arrived(), arrival) {
            Verdict::Queued => {
                self.live.insert(sequence, live);
                Ok(())
            }
            Verdict::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Drops the sequences that nobody listens to any more; their blocks are free at once.
    fn sweep(&mut self) {
        let now = self.clock.now();
        let (scheduler, observer) = (&mut self.scheduler, &mut self.observer);
        let speculator = &mut self.speculator;
        self.live.retain(|&sequence, live| {
            let listened_to = !live.is_abandoned();
            if !listened_to {
                scheduler.handle_cancel(sequence);
                forget(speculator, sequence);
                observer.observe(&Observation::Ended(live.record(End::Abort, now)));
            }
            listened_to
        });
    }

    fn step(&mut self, plan: &Plan, began: Instant) {
        if let Some(overdraft) = plan.overdraft() {
            self.observer.observe(&Observation::Overdrawn(overdraft));
        }
        for sequence in &plan.preempted {
            self.known(*sequence).note_preempted();
            forget(&mut self.speculator, *sequence);
        }
        for sequence in &plan.admitted {
            self.known(*sequence).note_admitted(began);
        }
        let mut outcomes = Vec::with_capacity(plan.slots.len());
        for slots in pass::passes(plan, EVERY_ROWS_MAX) {
            if let Err(error) = self.compute(&slots) {
                return self.lose_step(&error);
            }
            self.read(&slots, &mut outcomes);
        }
        let ended = self.clock.now();
        self.scheduler.handle_step(ended, &outcomes);
        self.stats.steps += 1;
        self.stats.health = Health::Ready;
        let tokens = plan.slots.iter().fold(Tokens::ZERO, |sum, slot| sum + slot.length);
        let duration = ended.since(began);
        self.observer.observe(&Observation::StepRan { tokens, duration });
        if let Some(speculator) = &mut self.speculator {
            let emitted = outcomes.iter().map(|outcome| outcome.appended.len()).sum();
            speculator.measure(&Ran::of(&plan.slots, emitted), duration);
        }
    }

    /// Has the backend compute slots of the plan into `logits`.
    fn compute(&mut self, slots: &[Slot]) -> Result<(), BackendError> {
        let scheduler = &self.scheduler;
        let tokens: Vec<_> = slots.iter().map(|slot| slot_tokens(scheduler, slot)).collect();
        let batch: Vec<BatchSlot<'_>> = slots
            .iter()
            .zip(&tokens)
            .map(|(slot, tokens)| BatchSlot {
                tokens,
                start: slot.start.get(),
                table: scheduler.block_table(slot.sequence),
                logits: slot.logits,
            })
            .collect();
        self.logits.clear();
        self.backend.forward(&batch, &mut self.logits)?;
        let rows: u32 = slots.iter().map(pass::rows).sum();
        let expected = place(Tokens::new(rows)) * self.vocabulary;
        if self.logits.len() == expected {
            return Ok(());
        }
        let found = self.logits.len();
        Err(BackendError { reason: format!("it gave `{found}` logits; expected {expected}") })
    }

    /// Reads the rows of a pass: prompt log probabilities, and a token for each slot that reaches
    /// the end of its sequence.
    fn read(&mut self, slots: &[Slot], outcomes: &mut Vec<Outcome>) {
        let now = self.clock.now();
        let mut logits = core::mem::take(&mut self.logits);
        let mut rest = logits.as_mut_slice();
        for slot in slots {
            let (rows, after) =
                rest.split_at_mut(place(Tokens::new(pass::rows(slot))) * self.vocabulary);
            rest = after;
            if slot.logits == Logits::Every && slot.drafts == Tokens::ZERO {
                self.read_prompt(slot, rows);
            }
            if Tokens::ZERO < slot.drafts {
                outcomes.push(self.sample(slot.sequence, rows, now));
                continue;
            }
            let end = place(slot.start + slot.length);
            if slot.logits != Logits::None && end == self.scheduler.tokens(slot.sequence).len() {
                let last = rows.len() - self.vocabulary;
                outcomes.push(self.sample(slot.sequence, &mut rows[last..], now));
            }
        }
        self.logits = logits;
    }

    /// The row of a position tells how likely the token after it was.
    fn read_prompt(&mut self, slot: &Slot, rows: &[f32]) {
        let tokens = self.scheduler.tokens(slot.sequence);
        let Some(live) = self.live.get_mut(&slot.sequence) else {
            return;
        };
        for (row, next) in rows.chunks_exact(self.vocabulary).zip(place(slot.start) + 1..) {
            if let (Some(count), Some(&token)) =
                (live.wants_prompt_logprobs(next), tokens.get(next))
            {
                live.note_prompt_logprobs(next, position_logprobs(row, token, count));
            }
        }
    }

    /// Chooses the tokens that follow a sequence: the first row's, and while that is what was
    /// drafted, the next row's.
    fn sample(&mut self, sequence: SequenceId, rows: &mut [f32], now: Instant) -> Outcome {
        let mut appended = Vec::new();
        let mut progress = Progress::Continues;
        for (place, row) in rows.chunks_exact_mut(self.vocabulary).enumerate() {
            match self.choose(sequence, place, row, now) {
                Chosen::Token(token) => appended.push(token),
                Chosen::Last(token) => {
                    appended.push(token);
                    progress = Progress::Finished;
                }
                Chosen::Nothing => progress = Progress::Finished,
            }
            let drafted = self.scheduler.drafts(sequence).get(place);
            if progress == Progress::Finished || appended.last() != drafted {
                break;
            }
        }
        self.stats.generation_tokens += appended.len() as u64;
        if let Some(speculator) = &mut self.speculator {
            speculator.learn(sequence, self.scheduler.drafts(sequence), &appended, progress);
            if progress == Progress::Finished {
                speculator.forget(sequence);
            }
        }
        Outcome { sequence, appended, progress }
    }

    /// Chooses and tells of one token, the one at a place of the slot.
    fn choose(
        &mut self,
        sequence: SequenceId,
        place: usize,
        row: &mut [f32],
        now: Instant,
    ) -> Chosen {
        let cached = self.scheduler.cached(sequence);
        let live = self.live.get_mut(&sequence).expect("the scheduler plans only live sequences");
        let drafted = place < self.scheduler.drafts(sequence).len();
        let speculator = self.speculator.as_ref().filter(|_| drafted);
        let guess = speculator.and_then(|speculator| speculator.guess(sequence, place));
        let choice = match live.sampler.verify(row, guess) {
            Ok(choice) => choice,
            Err(error) => {
                self.end(sequence, End::Error, now, Last::Failure(error.to_string()));
                return Chosen::Nothing;
            }
        };
        // Those of one step come together: one gap for all of them, as a reader sees it.
        if place == 0 {
            let observation = match live.note_token_time(now, cached) {
                TokenTime::First(waited) => {
                    self.stats.prompt_tokens += u64::from(live.prompt_tokens().get());
                    Observation::FirstToken { waited }
                }
                TokenTime::Next(gap) => Observation::NextToken { gap },
            };
            self.observer.observe(&observation);
        }
        let token = choice.token;
        if self.speculator.is_some() {
            live.note_drafted(self.scheduler.drafts(sequence).get(place) == Some(&token));
        }
        let Some(finish) = live.take(choice) else { return Chosen::Token(token) };
        let end = match finish.reason {
            FinishReason::Stop(_) => End::Stop,
            FinishReason::Length => End::Length,
        };
        self.end(sequence, end, now, Last::Finish(finish));
        Chosen::Last(token)
    }

    fn end(&mut self, sequence: SequenceId, end: End, now: Instant, last: Last) {
        if let Some(live) = self.live.remove(&sequence) {
            let record = live.record(end, now);
            self.ended.push((live, last));
            self.observer.observe(&Observation::Ended(record));
        }
    }

    /// The step's keys and values are not to be trusted, so its sequences end; others go on.
    fn lose_step(&mut self, error: &BackendError) {
        self.stats.steps_failed += 1;
        self.stats.health = self.stats.health.failed();
        tracing::error!(%error, "a step failed");
        let now = self.clock.now();
        for sequence in self.scheduler.handle_step_lost() {
            forget(&mut self.speculator, sequence);
            self.end(sequence, End::Error, now, Last::Failure(error.to_string()));
        }
    }

    /// Nothing that the backend holds can be trusted any more.
    pub(super) fn break_down(&mut self) {
        tracing::error!("the backend panicked; the engine takes no more requests");
        self.stats.steps_failed += 1;
        self.stats.health = Health::Broken;
        self.speculator = None;
        self.scheduler = scheduler(self.limits, self.observer.as_ref());
        if self.observer.watches_cache() {
            self.observer.observe_cache(CacheChanges::Cleared);
        }
        self.fail_all("the engine's backend failed for good; send the request elsewhere");
    }

    fn fail_all(&mut self, sentence: &str) {
        let now = self.clock.now();
        while let Some((&sequence, _)) = self.live.first_key_value() {
            self.scheduler.handle_cancel(sequence);
            forget(&mut self.speculator, sequence);
            self.end(sequence, End::Error, now, Last::Failure(sentence.to_owned()));
        }
    }

    fn publish(&mut self) {
        self.stats.batch = self.scheduler.stats();
        if let Some(speculator) = &mut self.speculator {
            self.stats.speculation = speculator.stats(self.clock.now());
        }
        self.shared.publish(&self.stats);
        // Before anyone hears of an end: what follows it at once may ask where its prefix lies.
        let changes = self.scheduler.take_changes();
        if !changes.is_empty() {
            self.observer.observe_cache(CacheChanges::Pages(changes));
        }
        for (live, last) in self.ended.drain(..) {
            live.send_last(last);
        }
    }

    fn known(&mut self, sequence: SequenceId) -> &mut Live {
        self.live.get_mut(&sequence).expect("the scheduler plans only live sequences")
    }
}

/// A scheduler that records what its cache holds where KV events are published.
fn scheduler(limits: BatchLimits, observer: &dyn Observer) -> Scheduler {
    let mut scheduler = Scheduler::new(limits);
    if observer.watches_cache() {
        scheduler.listen_to_cache();
    }
    scheduler
}

/// The tokens that a slot computes: known ones, then drafted ones.
fn slot_tokens(scheduler: &Scheduler, slot: &Slot) -> Vec<TokenId> {
    let (start, length, drafts) = (place(slot.start), place(slot.length), place(slot.drafts));
    let known = &scheduler.tokens(slot.sequence)[start..start + length - drafts];
    [known, &scheduler.drafts(slot.sequence)[..drafts]].concat()
}

/// Nothing is guessed for a sequence any more, or not from what it held.
fn forget(speculator: &mut Option<Speculator>, sequence: SequenceId) {
    if let Some(speculator) = speculator {
        speculator.forget(sequence);
    }
}

/// A number of tokens as an index.
fn place(tokens: Tokens) -> usize {
    usize::try_from(tokens.get()).expect("usize holds 32 bits")
}
