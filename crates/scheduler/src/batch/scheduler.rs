//! Scheduler: its state, arrivals, cancellations and queries.
//!
//! How a step is chosen is in `plan.rs`, how it ends in `step.rs`. **Invariant:** after every call
//! each page is counted exactly once as held, cached or blank, and held exactly as often as tables
//! name it; [`Scheduler::audit`] checks this and more.

use alloc::vec::Vec;

use overdraft_units::{BlockId, Blocks, Instant, SequenceId, TokenId, Tokens};

use super::blocks::BlockPool;
use super::changes::CacheChange;
use super::import::OpenImport;
use super::queue::WaitingQueue;
use super::sequence::{Handle, Phase, Sequence, SequenceTable, length};
use super::types::{Arrival, BatchLimits, BatchStats, Refusal, Verdict};

/// Decides what an engine computes next.
///
/// The methods are of four kinds: `handle_*` for what came in, [`Scheduler::plan`] for what should
/// be done next, bare getters, and [`Scheduler::audit`] for tests. From a plan with slots to the
/// `handle_step` or `handle_step_lost` that answers it a step is *open*; arrivals and cancellations
/// may come meanwhile, another plan may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    pub(super) limits: BatchLimits,
    /// The latest time we were told.
    pub(super) clock: Instant,
    pub(super) sequences: SequenceTable,
    pub(super) waiting: WaitingQueue,
    /// Those that hold pages, in the order of their turns.
    pub(super) running: Vec<Handle>,
    pub(super) pool: BlockPool,
    pub(super) step: OpenStep,
    /// Whether a sequence may have brought drafts since the last plan.
    pub(super) has_drafts: bool,
    /// Pages that are being written from elsewhere; none between calls.
    pub(super) import: Option<OpenImport>,
    pub(super) counts: Counts,
}

/// What was planned and has not been answered yet; empty between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenStep {
    pub(super) slots: Vec<PlannedSlot>,
    /// Pages made findable by this plan, in that order: they hold nothing until the step is done.
    pub(super) offered: Vec<BlockId>,
}

impl OpenStep {
    /// Whether something was planned and not answered yet.
    pub(super) fn is_open(&self) -> bool {
        !self.slots.is_empty()
    }
}

/// Positions `start..start + length` of a sequence, the last `drafts` of them drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedSlot {
    pub(super) handle: Handle,
    pub(super) start: Tokens,
    pub(super) length: Tokens,
    pub(super) drafts: Tokens,
}

/// What is counted from the start on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) arrivals: u64,
    pub(super) prefix_queried: u64,
    pub(super) prefix_hit: u64,
    pub(super) preemptions: u64,
    pub(super) held_back: u64,
    pub(super) positions_computed: u64,
}

impl Scheduler {
    /// A scheduler with nothing to do. No limit may be zero.
    pub fn new(limits: BatchLimits) -> Self {
        Self::with_pool(limits, BlockPool::new(limits.blocks, limits.block_size))
    }

    /// A scheduler over a given, blank pool.
    pub(super) fn with_pool(mut limits: BatchLimits, pool: BlockPool) -> Self {
        assert!(Tokens::ZERO < limits.step_tokens, "a step computes at least one token");
        assert!(0 < limits.running_max, "at least one sequence runs");
        assert!(0 < limits.waiting_max, "at least one sequence waits");
        assert!(Blocks::ZERO < limits.blocks, "the cache has at least one page");
        assert!(Tokens::ZERO < limits.context, "the context has at least one position");
        // What runs gets a token of every step (`docs/design/batch.md#r3`).
        limits.running_max = limits.running_max.min(limits.step_tokens.get());
        Self {
            limits,
            clock: Instant::ORIGIN,
            sequences: SequenceTable::default(),
            waiting: WaitingQueue::default(),
            running: Vec::new(),
            pool,
            step: OpenStep::default(),
            has_drafts: false,
            import: None,
            counts: Counts::default(),
        }
    }

    /// Takes a sequence in, or refuses it and changes nothing.
    pub fn handle_arrival(&mut self, now: Instant, arrival: Arrival) -> Verdict {
        let ceiling = match self.ceiling(&arrival) {
            Ok(ceiling) => ceiling,
            Err(refusal) => return Verdict::Refused(refusal),
        };
        self.clock = self.clock.max(now);
        self.counts.arrivals += 1;
        let sequence = Sequence::new(arrival, now, self.counts.arrivals, ceiling);
        let rank = sequence.rank;
        let handle = self.sequences.insert(sequence);
        self.waiting.insert(rank, handle);
        Verdict::Queued
    }

    /// How long the sequence may get, or why it is not taken (`docs/design/batch.md#r9`).
    fn ceiling(&self, arrival: &Arrival) -> Result<Tokens, Refusal> {
        let BatchLimits { blocks, block_size, context, waiting_max, .. } = self.limits;
        let prompt = length(&arrival.prompt);
        if prompt == Tokens::ZERO {
            return Err(Refusal::EmptyPrompt);
        }
        if context <= prompt {
            return Err(Refusal::LongerThanContext { asked: prompt, context });
        }
        let whole = prompt.get().saturating_add(arrival.output_max.get());
        let ceiling = Tokens::new(whole).min(context);
        let asked = block_size.pages_for(ceiling);
        if blocks < asked {
            return Err(Refusal::LargerThanCache { asked, blocks });
        }
        if self.sequences.handle(arrival.sequence).is_some() {
            return Err(Refusal::DuplicateSequence);
        }
        if waiting_max as usize <= self.waiting.len() {
            return Err(Refusal::QueueFull { waiting_max });
        }
        Ok(ceiling)
    }

    /// Drops a sequence, whatever it is doing, and says whether there was one to drop.
    ///
    /// Its pages are free at once, unless it has a slot in an open step: that step writes into
    /// them, and others may count on what it writes, so they are free when the step is closed.
    pub fn handle_cancel(&mut self, sequence: SequenceId) -> bool {
        let Some(handle) = self.sequences.handle(sequence) else { return false };
        match self.sequences[handle].phase {
            Phase::Waiting => {
                self.waiting.remove(self.sequences[handle].rank);
                self.sequences.remove(handle);
            }
            Phase::Running => {
                self.running.retain(|running| *running != handle);
                self.drop_running(handle);
            }
            // Stepping => Leaving => gone when the step is closed
            Phase::Stepping => self.sequences[handle].phase = Phase::Leaving,
            Phase::Leaving => return false,
        }
        true
    }

    /// Forgets a sequence that `running` no longer lists, and releases its pages.
    pub(super) fn drop_running(&mut self, handle: Handle) {
        let sequence = self.sequences.remove(handle);
        for block in sequence.table.into_iter().rev() {
            self.pool.release(block);
        }
    }

    /// Records from now on what the cache comes to hold and gives up, for [`Self::take_changes`].
    pub fn listen_to_cache(&mut self) {
        self.pool.listen();
    }

    /// What the cache came to hold and gave up since the last call, in order; nothing unless
    /// [`Self::listen_to_cache`] was called. Take it once a step: it is lost when it gets too long.
    pub fn take_changes(&mut self) -> Vec<CacheChange> {
        self.pool.take_changes()
    }

    /// All known tokens of a sequence, prompt first; none if it is not known.
    pub fn tokens(&self, sequence: SequenceId) -> &[TokenId] {
        self.sequences.named(sequence).map_or(&[], |sequence| &sequence.tokens)
    }

    /// The pages of a sequence: position `p` lies in page `p / block_size`. None while it waits.
    ///
    /// Read it afresh for every step: a page may be exchanged for another of the same content.
    pub fn block_table(&self, sequence: SequenceId) -> &[BlockId] {
        self.sequences.named(sequence).map_or(&[], |sequence| &sequence.table)
    }

    /// How many of its prompt tokens a sequence found in the cache when it first joined; zero before.
    pub fn cached(&self, sequence: SequenceId) -> Tokens {
        let cached = self.sequences.named(sequence).and_then(|sequence| sequence.cached);
        cached.unwrap_or(Tokens::ZERO)
    }

    /// How often the tables of running sequences name a page.
    pub fn holders(&self, block: BlockId) -> u32 {
        self.pool.holders(block)
    }

    /// Whether nothing runs and nothing waits. Only then is a plan without slots.
    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty()
    }

    /// A count of everything, in constant time.
    pub fn stats(&self) -> BatchStats {
        let idle = self.pool.idle();
        let first = self.waiting.after(None).map(|(_, handle)| self.sequences[handle].arrived);
        BatchStats {
            running: count(self.running.len()),
            waiting: count(self.waiting.len()),
            blocks: self.limits.blocks,
            blocks_held: self.limits.blocks.checked_sub(idle).expect("idle pages are pages"),
            blocks_cached: self.pool.cached(),
            blocks_evicted: self.pool.evicted(),
            prefix_queried: self.counts.prefix_queried,
            prefix_hit: self.counts.prefix_hit,
            preemptions: self.counts.preemptions,
            held_back: self.counts.held_back,
            positions_computed: self.counts.positions_computed,
            waiting_longest: self.clock.since(first.unwrap_or(self.clock)),
        }
    }
}

/// A length for a report.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
