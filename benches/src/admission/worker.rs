//! A worker in virtual time: the engine's scheduler, and what a step costs.
//!
//! The costs are those of a 70B model on two GPUs: 33 ms for a step of 128 sequences, 10,000 prompt
//! tokens a second, room for 217,600 tokens (docs/design/admission.md).

use std::collections::BTreeMap;

use overdraft_core::fleet::Scraped;
use overdraft_scheduler::batch::{
    Arrival, BatchLimits, BatchStats, Batching, Logits, Outcome, Plan, PrefixReuse, Progress,
    Scheduler, Verdict,
};
use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens,
};

use super::load::Job;

/// Tokens to a page of its cache.
pub(crate) const BLOCK: u32 = 16;

const STEP_MICROS: u64 = 18_000;
const SEQUENCE_MICROS: u64 = 118;
const PREFILL_TOKEN_MICROS: u64 = 100;

/// What happened to a request in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has so many tokens now.
    Grew(u64, u32),
    /// It has all of them.
    Ended(u64, u32),
}

/// One worker.
pub(crate) struct Worker {
    blocks: u32,
    scheduler: Scheduler,
    plan: Plan,
    /// Tokens each request has, and will have.
    answers: BTreeMap<u64, (u32, u32)>,
    /// When the step under way will have been done, in microseconds.
    pub(crate) done_at: Option<u64>,
}

fn instant(micros: u64) -> Instant {
    Instant::ORIGIN + Micros::new(micros)
}

impl Worker {
    pub(crate) fn new(blocks: u32) -> Self {
        let limits = BatchLimits {
            step_tokens: Tokens::new(1_024),
            running_max: 256,
            waiting_max: 1 << 20,
            blocks: Blocks::new(blocks),
            block_size: BlockSize::new(BLOCK).expect("sixteen is not zero"),
            context: Tokens::new(1 << 17),
            batching: Batching::Mixed,
        };
        let scheduler = Scheduler::new(limits);
        Self { blocks, scheduler, plan: Plan::default(), answers: BTreeMap::new(), done_at: None }
    }

    /// Takes a request in.
    pub(crate) fn send(&mut self, number: u64, job: &Job, now: u64) {
        let low = u32::try_from(number % (1 << 20)).unwrap_or(0);
        // Prompts that share nothing.
        let prompt = (0..job.prompt).map(|place| TokenId(low.wrapping_mul(4_099) ^ place << 12));
        let arrival = Arrival {
            sequence: SequenceId(number),
            prompt: prompt.collect(),
            output_max: Tokens::new(job.limit),
            salt: CacheSalt(number),
            priority: Priority(0),
            reuse: PrefixReuse::Allowed,
            logits: Logits::Last,
        };
        let verdict = self.scheduler.handle_arrival(instant(now), arrival);
        assert_eq!(verdict, Verdict::Queued, "the load fits every bound");
        self.answers.insert(number, (0, job.length));
        self.go_on(now);
    }

    /// Ends the step under way, tells of what it did, and begins the next.
    pub(crate) fn step_done(&mut self, now: u64, events: &mut Vec<Event>) {
        let mut outcomes = Vec::with_capacity(self.plan.slots.len());
        for slot in &self.plan.slots {
            if slot.logits == Logits::None {
                continue;
            }
            let number = slot.sequence.0;
            let Some((has, length)) = self.answers.get_mut(&number) else { continue };
            *has += 1;
            let ended = length <= has;
            events.push(if ended { Event::Ended(number, *has) } else { Event::Grew(number, *has) });
            let progress = if ended { Progress::Finished } else { Progress::Continues };
            outcomes.push(Outcome {
                sequence: slot.sequence,
                appended: vec![TokenId(7)],
                progress,
            });
            if ended {
                self.answers.remove(&number);
            }
        }
        self.scheduler.handle_step(instant(now), &outcomes);
        self.done_at = None;
        self.go_on(now);
    }

    fn go_on(&mut self, now: u64) {
        if self.done_at.is_some() {
            return;
        }
        self.plan = self.scheduler.plan(instant(now));
        if self.plan.slots.is_empty() {
            return;
        }
        let (mut decodes, mut prefill) = (0, 0);
        for slot in &self.plan.slots {
            match slot.length.get() {
                1 => decodes += 1,
                tokens => prefill += u64::from(tokens),
            }
        }
        let micros = STEP_MICROS + SEQUENCE_MICROS * decodes + PREFILL_TOKEN_MICROS * prefill;
        self.done_at = Some(now + micros);
    }

    pub(crate) fn stats(&self) -> BatchStats {
        self.scheduler.stats()
    }

    /// What it would report now.
    pub(crate) fn report(&self, now: u64) -> Scraped {
        let stats = self.stats();
        let share = u64::from(stats.blocks_held.get()) * 1_000 / u64::from(self.blocks);
        Scraped {
            at: instant(now),
            running: stats.running,
            waiting: stats.waiting,
            kv_use_permille: u16::try_from(share).ok(),
            kv_capacity: Some(Tokens::new(BLOCK * self.blocks)),
            block_size: BlockSize::new(BLOCK),
            preemptions: Some(stats.preemptions),
        }
    }
}
