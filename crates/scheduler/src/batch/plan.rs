//! Step planning: continuous batching with chunked prefill and preemption.
//!
//! Decodes come first, one token each and the pages for it, by preemption of the lowest priority if
//! need be. Then running prefills continue, each with a share of the step's remaining token budget,
//! so that a long prompt slows a short one down but never starves it. Then waiting sequences join
//! in order. The tokens left over go to the first prefill that can use them, and then to drafts.
//!
//! **Invariant:** a plan never exceeds `step_tokens` or `running_max`, gives every running sequence
//! at least one token, and never takes pages from a sequence it has given a slot.

use alloc::vec::Vec;

use overdraft_units::{BlockId, Blocks, Instant, Tokens};

use super::prefix::STRIDE;
use super::queue::Rank;
use super::scheduler::{PlannedSlot, Scheduler};
use super::sequence::{Handle, Hold, Phase};
use super::types::{Batching, Logits, Plan, PrefixReuse, Slot};

/// Maximum share, in quarters, of a step's remaining tokens for one prefill while others could use
/// the rest (`docs/design/batch.md#r4`).
const PREFILL_SHARE_QUARTERS: u32 = 3;

/// Maximum sequences skipped in one plan because they wait for a prefix that others compute: bounds
/// the plan's time (`docs/design/batch.md#r7`).
const HELD_BACK_MAX: u32 = 64;

/// A plan in the making.
struct Draft {
    /// Tokens the step may still compute.
    budget: Tokens,
    plan: Plan,
}

/// What became of a waiting sequence's wish to join.
enum Joining {
    /// Waiting => Stepping.
    Joined,
    /// It had better wait for a prefix that a running sequence computes. Others may go ahead.
    Held,
    /// Too few pages are idle. Nobody goes ahead.
    NoRoom,
}

impl Scheduler {
    /// Decides the next step and opens it. Without slots there is nothing to do, nor to close.
    pub fn plan(&mut self, now: Instant) -> Plan {
        assert!(!self.step.is_open(), "a step is closed before the next is planned");
        assert!(self.import.is_none(), "an import is closed before a step is planned");
        self.clock = self.clock.max(now);
        let mut draft = Draft { budget: self.limits.step_tokens, plan: Plan::default() };
        match self.limits.batching {
            Batching::Mixed => self.plan_mixed(&mut draft),
            Batching::PrefillFirst => self.plan_prefill_first(&mut draft),
        }
        draft.budget = self.plan_drafts(draft.budget);
        draft.plan.slots = self.step.slots.iter().map(|planned| self.slot(planned)).collect();
        debug_assert_eq!(
            draft.plan.slots.is_empty(),
            self.is_idle(),
            "whoever is most entitled always gets a slot"
        );
        draft.plan
    }

    /// Decodes, and prompts with what is left of the step.
    fn plan_mixed(&mut self, draft: &mut Draft) {
        self.plan_decodes(draft);
        let decodes = self.step.slots.len();
        self.plan_prefills(draft);
        // After a preemption pages are short: a newcomer would take what its victim comes back for.
        if draft.plan.preempted.is_empty() {
            self.plan_arrivals(draft);
        }
        self.spend_rest(decodes, draft);
    }

    /// Prompts alone, the first one first; decodes where no prompt can be computed.
    fn plan_prefill_first(&mut self, draft: &mut Draft) {
        for place in 0..self.running.len() {
            let handle = self.running[place];
            let sequence = &self.sequences[handle];
            let length = sequence.remaining_from(sequence.computed).min(draft.budget);
            if !sequence.decodes() && Tokens::ZERO < length {
                self.open_slot(handle, length, draft);
            }
        }
        self.plan_arrivals(draft);
        if self.step.slots.is_empty() {
            self.plan_decodes(draft);
        } else {
            self.forget_drafts();
        }
    }

    /// Each sequence that generates computes its newest token, whatever else is there to do.
    fn plan_decodes(&mut self, draft: &mut Draft) {
        let mut place = 0;
        // In the order of turns: victims are taken from the end, so none has a slot yet.
        while let Some(&handle) = self.running.get(place) {
            place += 1;
            let sequence = &self.sequences[handle];
            if !sequence.decodes() {
                continue;
            }
            let start = sequence.computed;
            let length = sequence.remaining_from(start).min(self.spare(draft));
            if !self.grow(handle, start + length, draft) {
                break;
            }
            self.open_slot(handle, length, draft);
        }
    }

    /// Prefills go on. Their pages were reserved when they joined.
    fn plan_prefills(&mut self, draft: &mut Draft) {
        // Mostly everybody decodes.
        if self.step.slots.len() == self.running.len() {
            return;
        }
        for place in 0..self.running.len() {
            let handle = self.running[place];
            let sequence = &self.sequences[handle];
            if sequence.phase == Phase::Stepping {
                continue;
            }
            let wanted = sequence.remaining_from(sequence.computed);
            let length = wanted.min(self.share(draft.budget)).min(self.spare(draft));
            self.open_slot(handle, length, draft);
        }
    }

    /// What one running sequence may take so that each one without a slot yet still gets a token.
    fn spare(&self, draft: &Draft) -> Tokens {
        let others = self.running.len() - self.step.slots.len() - 1;
        Tokens::new(draft.budget.get() - u32::try_from(others).expect("at most `running_max`"))
    }

    /// What one prefill may take of `budget` while others could use the rest.
    fn share(&self, budget: Tokens) -> Tokens {
        if self.limits.batching == Batching::PrefillFirst {
            return budget;
        }
        let share = budget.get() - budget.get() / 4 * (4 - PREFILL_SHARE_QUARTERS);
        Tokens::new(share.max(self.limits.block_size.get())).min(budget)
    }

    /// Extends a table to hold `end` positions, preempting from the last turn on. False if the
    /// sequence itself was the last.
    #[inline]
    fn grow(&mut self, handle: Handle, end: Tokens, draft: &mut Draft) -> bool {
        let size = self.limits.block_size.get() as usize;
        while self.sequences[handle].table.len() * size < end.get() as usize {
            if let Some(block) = self.pool.allocate() {
                self.sequences[handle].table.push(block);
                continue;
            }
            let victim = self.running.pop().expect("the one that grows runs");
            self.preempt(victim, draft);
            if victim == handle {
                return false;
            }
        }
        true
    }

    /// Running => Waiting, with all its tokens and none of its pages (`docs/design/batch.md#r2`).
    fn preempt(&mut self, victim: Handle, draft: &mut Draft) {
        let sequence = &mut self.sequences[victim];
        debug_assert_eq!(sequence.phase, Phase::Running, "slots are not taken back");
        for block in sequence.table.drain(..).rev() {
            self.pool.release(block);
        }
        sequence.phase = Phase::Waiting;
        sequence.drafts.clear();
        sequence.offered = 0;
        sequence.computed = Tokens::ZERO;
        self.waiting.insert(sequence.rank, victim);
        self.counts.preemptions += 1;
        draft.plan.preempted.push(sequence.id);
    }

    /// Those who wait join in the order of their turns while tokens, places and pages last.
    fn plan_arrivals(&mut self, draft: &mut Draft) {
        let mut behind: Option<Rank> = None;
        let mut held = 0;
        let mut hits = Vec::new();
        while Tokens::ZERO < draft.budget
            && self.running.len() < self.limits.running_max as usize
            && held < HELD_BACK_MAX
        {
            let Some((rank, handle)) = self.waiting.after(behind) else { break };
            match self.try_join(handle, &mut hits, draft) {
                Joining::Joined => {}
                Joining::Held => {
                    held += 1;
                    behind = Some(rank);
                    self.counts.held_back += 1;
                }
                Joining::NoRoom => break,
            }
        }
    }

    fn try_join(&mut self, handle: Handle, hits: &mut Vec<BlockId>, draft: &mut Draft) -> Joining {
        if self.is_still_held(handle) {
            return Joining::Held;
        }
        self.find_prefix(handle, hits);
        let hold = self.hold(handle, hits);
        self.sequences[handle].held = hold;
        if hold.is_some() {
            return Joining::Held;
        }
        if !self.has_room(handle, hits) {
            return Joining::NoRoom;
        }
        self.join(handle, hits, draft);
        Joining::Joined
    }

    /// Pages of the cache that hold the sequence's first tokens.
    fn find_prefix(&self, handle: Handle, hits: &mut Vec<BlockId>) {
        let (sequence, size) = (&self.sequences[handle], self.limits.block_size);
        hits.clear();
        let tokens = &sequence.tokens[..sequence.reusable_pages(size) * size.get() as usize];
        self.pool.find_run(sequence.parent(0), tokens, hits);
        if sequence.reuse == PrefixReuse::Forbidden {
            // Prompt logits may be computed in a pass of their own, ahead of the step's others.
            let offered = |block: &BlockId| self.step.offered.contains(block);
            hits.truncate(hits.iter().position(offered).unwrap_or(hits.len()));
        }
    }

    /// Room for all that is known and one page to go on with, or for all it can ever become: a
    /// sequence that joins with less would soon be preempted (`docs/design/batch.md#r5`).
    fn has_room(&self, handle: Handle, hits: &[BlockId]) -> bool {
        let (sequence, size) = (&self.sequences[handle], self.limits.block_size);
        let whole = size.pages_for(sequence.known()) + Blocks::new(1);
        let pages = whole.min(size.pages_for(sequence.ceiling)).get() as usize;
        let idle_hits = hits.iter().filter(|block| self.pool.holders(**block) == 0).count();
        pages - hits.len() + idle_hits <= self.pool.idle().get() as usize
    }

    /// Waiting => Stepping.
    fn join(&mut self, handle: Handle, hits: &[BlockId], draft: &mut Draft) {
        let size = self.limits.block_size;
        self.waiting.remove(self.sequences[handle].rank);
        let sequence = &mut self.sequences[handle];
        for block in hits {
            self.pool.share(*block);
            sequence.table.push(*block);
        }
        for _ in hits.len()..size.pages_for(sequence.known()).get() as usize {
            sequence.table.push(self.pool.allocate().expect("there was room"));
        }
        let found = Tokens::new(size.get() * u32::try_from(hits.len()).expect("fits the context"));
        sequence.phase = Phase::Running;
        sequence.offered = hits.len();
        sequence.computed = found;
        sequence.goal = sequence.known();
        if sequence.cached.is_none() {
            sequence.cached = Some(found);
            if sequence.reuse == PrefixReuse::Allowed {
                self.counts.prefix_queried += u64::from(sequence.prompt.get());
                self.counts.prefix_hit += u64::from(found.get());
            }
        }
        draft.plan.admitted.push(sequence.id);
        let rank = sequence.rank;
        let place = self.running.partition_point(|other| self.sequences[*other].rank < rank);
        self.running.insert(place, handle);
        let wanted = self.sequences[handle].remaining_from(found);
        self.open_slot(handle, wanted.min(self.share(draft.budget)), draft);
    }

    /// Running => Stepping, with a slot of `length` positions from the first uncomputed one on.
    #[inline]
    fn open_slot(&mut self, handle: Handle, length: Tokens, draft: &mut Draft) {
        let sequence = &mut self.sequences[handle];
        debug_assert!(Tokens::ZERO < length, "a slot computes something");
        sequence.phase = Phase::Stepping;
        let start = sequence.computed;
        self.step.slots.push(PlannedSlot { handle, start, length, drafts: Tokens::ZERO });
        draft.budget = draft.budget.checked_sub(length).expect("a slot stays within the budget");
        self.offer(handle, start + length);
    }

    /// What is left of the budget goes to the first slots that end before their sequence does; the
    /// first `decodes` do not. What they fill is offered when the step is closed: nobody joins any
    /// more who could share it.
    fn spend_rest(&mut self, decodes: usize, draft: &mut Draft) {
        for planned in &mut self.step.slots[decodes..] {
            let sequence = &self.sequences[planned.handle];
            if sequence.decodes() {
                continue;
            }
            let end = planned.start + planned.length;
            let more = sequence.remaining_from(end).min(draft.budget);
            draft.budget = draft.budget.checked_sub(more).expect("at most what is left");
            planned.length += more;
        }
    }

    /// Makes the pages findable that are full once the positions before `end` are computed.
    ///
    /// In an open step they hold nothing yet. Whoever finds them before it is closed has a later
    /// slot in it, and within a step all writes of a layer precede its reads
    /// (`docs/design/batch.md#r8`).
    #[inline]
    pub(super) fn offer(&mut self, handle: Handle, end: Tokens) {
        let size = self.limits.block_size.get() as usize;
        // Mostly none is.
        if (self.sequences[handle].offered + 1) * size <= end.get() as usize {
            self.offer_full(handle, end);
        }
    }

    #[inline(never)]
    fn offer_full(&mut self, handle: Handle, end: Tokens) {
        let size = self.limits.block_size;
        let sequence = &mut self.sequences[handle];
        while (sequence.offered + 1) * size.get() as usize <= end.get() as usize {
            let number = sequence.offered;
            let (parent, page) = (sequence.parent(number), sequence.page(number, size));
            let own = sequence.table[number];
            if let Some(equal) = self.pool.find(parent, page) {
                if self.step.offered.contains(&equal) {
                    // Its beginning, which this slot may need, may not be written yet. Next time.
                    break;
                }
                // Computed twice, as two equal completions are: both go on with one page.
                self.pool.share(equal);
                self.pool.release(own);
                sequence.table[number] = equal;
            } else {
                self.pool.register(own, parent, page);
                if let Some(above) = number.checked_sub(STRIDE) {
                    self.pool.note_far(sequence.table[above], own);
                }
                if self.step.is_open() {
                    self.step.offered.push(own);
                } else {
                    self.pool.announce(own);
                }
            }
            sequence.offered += 1;
        }
    }

    /// Whether some prefill is about to compute the first page that the cache lacks, and how far
    /// the two go together.
    fn hold(&self, handle: Handle, hits: &[BlockId]) -> Option<Hold> {
        let (sequence, size) = (&self.sequences[handle], self.limits.block_size);
        let reusable = sequence.reusable_pages(size);
        if hits.len() == reusable {
            return None;
        }
        let holder = self.running.iter().find(|running| {
            let running = &self.sequences[**running];
            // Its pages so far are those that were found, so the next one decides.
            !running.decodes()
                && running.salt == sequence.salt
                && running.offered == hits.len()
                && running.table[..hits.len()].last() == hits.last()
                && hits.len() < (running.goal.get() / size.get()) as usize
                && running.page(hits.len(), size) == sequence.page(hits.len(), size)
        })?;
        let running = &self.sequences[*holder];
        let equal = running.tokens.iter().zip(&sequence.tokens).take_while(|(a, b)| a == b).count();
        let pages = (equal / size.get() as usize).min(reusable);
        Some(Hold { handle: *holder, id: running.id, pages })
    }

    /// Whether the prefill it waited for lives and has not come to where the two part.
    fn is_still_held(&self, handle: Handle) -> bool {
        let Some(hold) = self.sequences[handle].held else { return false };
        self.sequences.get(hold.handle).is_some_and(|holder| {
            holder.id == hold.id
                && holder.phase != Phase::Waiting
                && !holder.decodes()
                && holder.offered < hold.pages
        })
    }

    fn slot(&self, planned: &PlannedSlot) -> Slot {
        let PlannedSlot { handle, start, length, drafts } = *planned;
        let sequence = &self.sequences[handle];
        let logits = match drafts {
            Tokens::ZERO => sequence.logits_of(start, start + length),
            _ => Logits::Every,
        };
        Slot { sequence: sequence.id, start, length, drafts, logits }
    }
}
