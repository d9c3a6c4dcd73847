//! A worker: the engine's scheduler, and a GPU that is not there.

use overdraft_core::batch::{
    Arrival, BatchLimits, CacheChange, Logits, Outcome, Plan, PrefixReuse, Progress, Scheduler,
    Verdict,
};
use overdraft_core::fleet::Scraped;
use overdraft_silicon::{Batch, Chunk, Profile};
use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens,
};

use super::agenda::FlightId;
use super::scenario::{CacheKnowledge, Scenario, SimulateError};

/// Tokens per page, as vLLM's.
pub(super) const PAGE: BlockSize = BlockSize::new(16).expect("sixteen is not zero");

#[derive(Debug)]
pub(super) struct Worker {
    scheduler: Scheduler,
    /// The step that is being computed.
    step: Option<Plan>,
    capacity: Tokens,
    /// Sequences so far; a name is never used twice.
    named: u64,
    /// Kept between steps.
    outcomes: Vec<Outcome>,
}

impl Worker {
    pub(super) fn new(scenario: &Scenario) -> Result<Self, SimulateError> {
        let profile = &scenario.profile;
        let blocks = match scenario.kv_tokens {
            None => profile.kv_blocks(PAGE)?,
            Some(tokens) => Blocks::new(tokens.get() / PAGE.get()),
        };
        if blocks == Blocks::ZERO {
            let tokens = scenario.kv_tokens.map_or(0, Tokens::get);
            return Err(SimulateError::Cache(tokens));
        }
        let limits = BatchLimits {
            step_tokens: profile.step_tokens,
            running_max: profile.running_max,
            waiting_max: scenario.waiting_max.max(1),
            blocks,
            block_size: PAGE,
            context: Tokens::new(profile.model.context),
        };
        let mut scheduler = Scheduler::new(limits);
        if scenario.knowledge == CacheKnowledge::Reported {
            scheduler.listen_to_cache();
        }
        let capacity = Tokens::new(blocks.get().saturating_mul(PAGE.get()));
        Ok(Self { scheduler, step: None, capacity, named: 0, outcomes: Vec::new() })
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
        let arrival = Arrival {
            sequence: SequenceId(self.named << 32 | u64::from(flight)),
            prompt,
            output_max: output,
            salt: CacheSalt(0),
            priority: Priority(0),
            reuse: PrefixReuse::Allowed,
            logits: Logits::Last,
        };
        self.scheduler.handle_arrival(now, arrival)
    }

    /// Begins a step unless one is under way or there is nothing to do; says how long it takes.
    pub(super) fn plan_step(&mut self, profile: &Profile, now: Instant) -> Option<Micros> {
        if self.step.is_some() || self.scheduler.is_idle() {
            return None;
        }
        let plan = self.scheduler.plan(now);
        let chunk = |slot: &overdraft_core::batch::Slot| Chunk {
            before: slot.start,
            length: slot.length,
            samples: slot.logits != Logits::None,
        };
        let batch: Batch = plan.slots.iter().map(chunk).collect();
        let micros = u64::try_from(profile.step(&batch).as_micros()).unwrap_or(u64::MAX);
        self.step = Some(plan);
        Some(Micros::new(micros.max(1)))
    }

    /// Ends the step: `say` is told whose token it is and tells the token and whether there are more.
    pub(super) fn handle_step(
        &mut self,
        now: Instant,
        mut say: impl FnMut(FlightId, Tokens) -> (TokenId, Progress),
    ) {
        let Some(plan) = self.step.take() else { return };
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for slot in plan.slots.iter().filter(|slot| slot.logits != Logits::None) {
            let flight = u32::try_from(slot.sequence.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX);
            let (token, progress) = say(flight, self.scheduler.cached(slot.sequence));
            outcomes.push(Outcome { sequence: slot.sequence, appended: vec![token], progress });
        }
        self.scheduler.handle_step(now, &outcomes);
        outcomes.clear();
        self.outcomes = outcomes;
    }

    /// What the cache came to hold and gave up since the last time.
    pub(super) fn changes(&mut self) -> Vec<CacheChange> {
        self.scheduler.take_changes()
    }

    /// What it would say of its load.
    pub(super) fn scraped(&self, at: Instant) -> Scraped {
        let stats = self.scheduler.stats();
        let held =
            u64::from(stats.blocks_held.get()) * 1_000 / u64::from(stats.blocks.get().max(1));
        Scraped {
            at,
            running: stats.running,
            waiting: stats.waiting,
            kv_use_permille: u16::try_from(held).ok(),
            kv_capacity: Some(self.capacity),
            block_size: Some(PAGE),
            preemptions: Some(stats.preemptions),
        }
    }

    pub(super) fn preemptions(&self) -> u64 {
        self.scheduler.stats().preemptions
    }
}
