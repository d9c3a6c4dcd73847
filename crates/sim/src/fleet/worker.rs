//! Simulated worker: the engine's scheduler with a modelled GPU.

use std::collections::BTreeMap;

use overdraft_core::fleet::Scraped;
use overdraft_gpu_model::{Batch, Chunk, Profile, Scheduling, StepTimes};
use overdraft_scheduler::batch::{
    Arrival, BatchLimits, BatchStats, CacheChange, Logits, Outcome, Plan, PrefixReuse, Progress,
    Scheduler, Verdict,
};
use overdraft_scheduler::speculate::Ran;
use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens,
};

use super::bounds::{DRAFT_MODEL, MODEL};
use super::draft_model::{Came, Guesser, Guesses, Said};
use super::error::SimulateError;
use super::event_queue::FlightId;
use super::scenario::{CacheKnowledge, Overdraft, Scenario};
use crate::float_conversion::float;
use crate::report::WorkerTold;

/// A token of a prompt and one of its answer.
const CONTEXT_MIN: Tokens = Tokens::new(2);

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) profile: Profile,
    /// The place of its pool.
    pub(super) pool: u16,
    times: StepTimes,
    model: &'static str,
    limits: BatchLimits,
    knowledge: CacheKnowledge,
    scheduler: Scheduler,
    /// Requests that the last plan left waiting.
    left_behind: u32,
    guesser: Option<Guesser>,
    /// The step that is being computed, and how long the target takes for it.
    step: Option<(Plan, Micros)>,
    /// When that step ends.
    pub(super) step_ends: Instant,
    /// Whether it can be reached.
    is_up: bool,
    /// Who is on it, and under which name.
    flights: BTreeMap<FlightId, SequenceId>,
    /// Sequences so far; a name is never used twice.
    named: u64,
    /// Counted by schedulers that have crashed.
    before: Counted,
    pub(super) crashes: u64,
    /// In which it computed.
    busy: Micros,
    /// Kept between steps.
    outcomes: Vec<Outcome>,
}

/// What is counted over all schedulers that a worker had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) preemptions: u64,
    pub(super) evicted: u64,
}

/// What a worker does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing.
    Nothing,
    /// A step that takes so long.
    Step(Micros),
    /// It dies, and these with it.
    Crash(Vec<FlightId>),
}

/// A slot that yields tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yields<'a> {
    pub(super) flight: FlightId,
    scheduler: &'a Scheduler,
    sequence: SequenceId,
}

impl Yields<'_> {
    /// Tokens of the prompt that were found in the cache.
    pub(super) fn cached(&self) -> Tokens {
        self.scheduler.cached(self.sequence)
    }
}

impl Worker {
    /// One that the scenario is about.
    pub(super) fn target(scenario: &Scenario, profile: &Profile) -> Result<Self, SimulateError> {
        let guesser = scenario.speculation.as_ref();
        let guesser = guesser.map(|settings| Guesser::new(settings, profile));
        let mut worker = Self::new(scenario, profile, MODEL, scenario.kv_tokens)?;
        worker.guesser = guesser.transpose()?;
        Ok(worker)
    }

    /// One of the draft pool.
    pub(super) fn draft(scenario: &Scenario, profile: &Profile) -> Result<Self, SimulateError> {
        Self::new(scenario, profile, DRAFT_MODEL, None)
    }

    fn new(
        scenario: &Scenario,
        profile: &Profile,
        model: &'static str,
        kv_tokens: Option<Tokens>,
    ) -> Result<Self, SimulateError> {
        let page = scenario.page;
        let blocks = match kv_tokens {
            None => profile.kv_blocks(page)?,
            Some(tokens) => Blocks::new(tokens.get() / page.get()),
        };
        if blocks == Blocks::ZERO {
            let tokens = kv_tokens.map_or(0, Tokens::get);
            return Err(SimulateError::Cache { tokens, page: page.get() });
        }
        let capacity = Tokens::new(blocks.get().saturating_mul(page.get()));
        let context = scenario.context.unwrap_or(capacity).min(capacity);
        if context < CONTEXT_MIN {
            return Err(SimulateError::Context(context.get()));
        }
        let limits = BatchLimits {
            step_tokens: profile.step_tokens,
            running_max: profile.running_max,
            waiting_max: scenario.waiting_max.max(1),
            blocks,
            block_size: page,
            context,
            batching: profile.batching,
        };
        Ok(Self {
            profile: profile.clone(),
            pool: 0,
            times: StepTimes::new(profile.clone()),
            model,
            limits,
            knowledge: scenario.knowledge,
            scheduler: scheduler(limits, scenario.knowledge),
            left_behind: 0,
            guesser: None,
            step: None,
            step_ends: Instant::ORIGIN,
            is_up: true,
            flights: BTreeMap::new(),
            named: 0,
            before: Counted::default(),
            crashes: 0,
            busy: Micros::ZERO,
            outcomes: Vec::new(),
        })
    }

    /// The same in another pool.
    pub(super) fn of_pool(self, pool: u16) -> Self {
        Self { pool, ..self }
    }

    /// What it serves.
    pub(super) const fn model(&self) -> &'static str {
        self.model
    }

    /// Tokens per page of its cache.
    pub(super) const fn page(&self) -> BlockSize {
        self.limits.block_size
    }

    pub(super) const fn is_up(&self) -> bool {
        self.is_up
    }

    /// A new process, with an empty cache.
    pub(super) fn restart(&mut self) {
        self.is_up = true;
    }

    /// Tokens of a prompt that its cache holds, in whole pages.
    pub(super) fn holds(&self, prompt: &[TokenId]) -> u32 {
        let pages = self.scheduler.leading_pages(CacheSalt(0), prompt).len();
        u32::try_from(pages).unwrap_or(u32::MAX).saturating_mul(self.page().get())
    }

    /// Whether a prompt of which it has to compute so many tokens could be started now.
    pub(super) fn has_room_for(&self, tokens: u32) -> bool {
        let stats = self.stats();
        let free = stats.blocks.get().saturating_sub(stats.blocks_held.get());
        let runs = stats.running < self.limits.running_max;
        stats.waiting == 0 && runs && tokens.div_ceil(self.page().get()) <= free
    }

    /// Tokens that an answer may have after such a prompt; one at least, for what is refused anyway.
    pub(super) fn room_after(&self, prompt: Tokens) -> Tokens {
        Tokens::new(self.limits.context.get().saturating_sub(prompt.get()).max(1))
    }

    /// While a step is computed and the one after it is planned already: when the former ends.
    pub(super) fn next_is_planned_until(&self) -> Option<Instant> {
        let plans_ahead = self.profile.scheduling == Scheduling::Asynchronous;
        self.step.as_ref().filter(|_| plans_ahead).map(|_| self.step_ends)
    }

    /// Takes a request in, or refuses it.
    pub(super) fn handle_arrival(
        &mut self,
        flight: FlightId,
        prompt: Vec<TokenId>,
        output: Tokens,
        now: Instant,
    ) -> Verdict {
        self.named += 1;
        let sequence = SequenceId(self.named << 32 | u64::from(flight));
        let arrival = Arrival {
            sequence,
            prompt,
            output_max: output,
            salt: CacheSalt(0),
            priority: Priority(0),
            reuse: PrefixReuse::Allowed,
            logits: Logits::Last,
        };
        let verdict = self.scheduler.handle_arrival(now, arrival);
        if verdict == Verdict::Queued {
            self.flights.insert(flight, sequence);
        }
        verdict
    }

    /// Begins a step unless one is under way or there is nothing to do. `said` tells how far an answer is.
    pub(super) fn plan_step(
        &mut self,
        overdraft: Overdraft,
        now: Instant,
        said: impl Fn(FlightId) -> Option<Said>,
    ) -> Next {
        if self.step.is_some() || self.scheduler.is_idle() {
            return Next::Nothing;
        }
        if let Some(guesser) = &mut self.guesser {
            let (scheduler, left) = (&mut self.scheduler, self.left_behind);
            guesser.propose(now, scheduler, left, |sequence| said(flight_of(sequence)));
        }
        let plan = self.scheduler.plan(now);
        self.left_behind = self.scheduler.stats().waiting;
        if plan.overdraft().is_some() && matches!(overdraft, Overdraft::Crash(_)) {
            return Next::Crash(self.crash());
        }
        let batch = self.batch(&plan);
        let took = self.times.step(&batch).as_micros();
        let took = Micros::new(u64::try_from(took).unwrap_or(u64::MAX).max(1));
        let took = took + self.profile.waking(now.since(self.step_ends));
        self.step = Some((plan, took));
        let guessing = self.guesser.as_ref().map_or(Micros::ZERO, Guesser::takes);
        self.busy = self.busy + took + guessing;
        Next::Step(took + guessing)
    }

    /// What a plan computes, as far as its time depends on it.
    fn batch(&self, plan: &Plan) -> Batch {
        let mut batch = Batch::new();
        for slot in &plan.slots {
            if slot.drafts == Tokens::ZERO {
                let samples = slot.logits != Logits::None;
                batch.push(Chunk { before: slot.start, length: slot.length, samples });
            } else {
                batch.push_verified(slot.start, slot.drafts);
            }
        }
        if 0.0 < self.profile.shared_reads {
            let held = self.stats().blocks_held.get();
            batch.share(Tokens::new(held.saturating_mul(self.page().get())));
        }
        batch
    }

    /// A request is not wanted any more, if it was here.
    pub(super) fn cancel(&mut self, flight: FlightId) {
        if let Some(sequence) = self.flights.remove(&flight) {
            self.scheduler.handle_cancel(sequence);
            if let Some(guesser) = &mut self.guesser {
                guesser.forget(sequence);
            }
        }
    }

    /// The process is gone with all it had.
    pub(super) fn crash(&mut self) -> Vec<FlightId> {
        self.step = None;
        self.before = self.counted();
        self.crashes += 1;
        self.is_up = false;
        self.left_behind = 0;
        self.scheduler = scheduler(self.limits, self.knowledge);
        std::mem::take(&mut self.flights).into_keys().collect()
    }

    /// Ends the step: `say` is told whose turn it is and what was guessed, adds the tokens that follow, and
    /// tells whether there are more and which session it is.
    pub(super) fn handle_step(
        &mut self,
        now: Instant,
        mut say: impl FnMut(Yields<'_>, &[TokenId], &mut Vec<TokenId>) -> (Progress, u64),
    ) {
        let Some((plan, took)) = self.step.take() else { return };
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut used = 0;
        for slot in plan.slots.iter().filter(|slot| slot.logits != Logits::None) {
            let flight = flight_of(slot.sequence);
            // Who was cancelled while the step was computed says nothing.
            if self.flights.get(&flight) != Some(&slot.sequence) {
                continue;
            }
            if outcomes.len() == used {
                let appended = Vec::with_capacity(1);
                let progress = Progress::Continues;
                outcomes.push(Outcome { sequence: slot.sequence, appended, progress });
            }
            let outcome = &mut outcomes[used];
            used += 1;
            outcome.sequence = slot.sequence;
            outcome.appended.clear();
            let yields = Yields { flight, scheduler: &self.scheduler, sequence: slot.sequence };
            let drafts: &[TokenId] = if slot.drafts == Tokens::ZERO {
                &[]
            } else {
                self.scheduler.drafts(slot.sequence)
            };
            let (progress, session) = say(yields, drafts, &mut outcome.appended);
            outcome.progress = progress;
            if let Some(guesser) = &mut self.guesser {
                guesser.learn(slot.sequence, session, &came(drafts, &outcome.appended));
                if progress == Progress::Finished {
                    guesser.forget(slot.sequence);
                }
            }
            if progress == Progress::Finished {
                self.flights.remove(&flight);
            }
        }
        if let Some(guesser) = &mut self.guesser {
            let tokens = outcomes[..used].iter().map(|outcome| outcome.appended.len()).sum();
            guesser.measure(&Ran::of(&plan.slots, tokens), took);
        }
        self.scheduler.handle_step(now, &outcomes[..used]);
        self.outcomes = outcomes;
    }

    /// What the cache came to hold and gave up since the last time.
    pub(super) fn changes(&mut self) -> Vec<CacheChange> {
        self.scheduler.take_changes()
    }

    /// What it would say of its load.
    pub(super) fn scraped(&self, at: Instant) -> Scraped {
        let stats = self.stats();
        let held =
            u64::from(stats.blocks_held.get()) * 1_000 / u64::from(stats.blocks.get().max(1));
        let capacity = self.limits.blocks.get().saturating_mul(self.page().get());
        Scraped {
            at,
            running: stats.running,
            waiting: stats.waiting,
            kv_use_permille: u16::try_from(held).ok(),
            kv_capacity: Some(Tokens::new(capacity)),
            block_size: Some(self.page()),
            preemptions: Some(stats.preemptions),
        }
    }

    fn stats(&self) -> BatchStats {
        self.scheduler.stats()
    }

    pub(super) fn counted(&self) -> Counted {
        let stats = self.stats();
        Counted {
            preemptions: self.before.preemptions + stats.preemptions,
            evicted: self.before.evicted + stats.blocks_evicted,
        }
    }

    /// What a report says of it.
    pub(super) fn told(&self) -> WorkerTold {
        let Counted { preemptions, evicted: evictions } = self.counted();
        let busy_seconds = float(self.busy.get()) / 1e6;
        WorkerTold { pool: self.pool, preemptions, evictions, crashes: self.crashes, busy_seconds }
    }

    pub(super) fn guesses(&self) -> Guesses {
        self.guesser.as_ref().map_or_else(Guesses::default, |guesser| guesser.guesses)
    }
}

fn scheduler(limits: BatchLimits, knowledge: CacheKnowledge) -> Scheduler {
    let mut scheduler = Scheduler::new(limits);
    if knowledge == CacheKnowledge::Reported {
        scheduler.listen_to_cache();
    }
    scheduler
}

fn flight_of(sequence: SequenceId) -> FlightId {
    u32::try_from(sequence.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn came(drafts: &[TokenId], emitted: &[TokenId]) -> Came {
    let right = drafts.iter().zip(emitted).take_while(|(draft, token)| draft == token).count();
    let emitted = u32::try_from(emitted.len()).unwrap_or(u32::MAX);
    Came { drafted: drafts.len(), right, emitted }
}
