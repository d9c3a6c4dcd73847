//! Draft slots for speculative decoding: which drafted tokens are verified in the next step.
//!
//! A step computes drafted tokens after a sequence's last known token, in the same slot: each
//! position's logits verify the next drafted token. Drafts have the lowest priority. They get step
//! tokens and pages that nothing else wants, never preempt a sequence, are never in the prefix
//! index, and the pages that only they needed are freed when the step is closed
//! (`docs/design/batch.md#r10`).

use alloc::vec::Vec;

use overdraft_units::{Blocks, SequenceId, TokenId, Tokens};

use super::scheduler::Scheduler;
use super::sequence::{Handle, Phase};

/// Waiting sequences whose demand is reserved before drafts get anything; where more could join,
/// drafts get nothing.
const ARRIVALS_HEEDED: usize = 8;

/// The load of the next step without drafts, and the room left for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftRoom {
    /// Sequences that decode: each computes a token.
    pub decodes: u32,
    /// Prompt tokens to be computed.
    pub prefill: Tokens,
    /// Token budget of drafts, over all sequences.
    pub room: Tokens,
}

/// Demand of the sequences that may join in the next plan.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    tokens: u64,
    pages: u64,
}

impl Scheduler {
    /// What the next plan would leave for drafts.
    pub fn draft_room(&self) -> DraftRoom {
        let mut decodes = 0;
        let mut prefill = self.wanted_by_arrivals().tokens;
        for sequence in self.running.iter().map(|handle| &self.sequences[*handle]) {
            if sequence.decodes() {
                decodes += 1;
            } else {
                prefill += u64::from(sequence.remaining_from(sequence.computed).get());
            }
        }
        let step = u64::from(self.limits.step_tokens.get());
        let room = step.saturating_sub(prefill).saturating_sub(u64::from(decodes));
        let small = |tokens: u64| Tokens::new(u32::try_from(tokens).unwrap_or(u32::MAX));
        DraftRoom { decodes, prefill: small(prefill.min(step)), room: small(room) }
    }

    /// Sequences that decode and may have drafts, in the order of their turns.
    pub fn decoding(&self) -> impl Iterator<Item = SequenceId> + '_ {
        let handles = self.running.iter().copied().filter(|handle| self.may_draft(*handle));
        handles.map(|handle| self.sequences[handle].id)
    }

    /// Takes idle pages so that up to `ahead` tokens can be computed behind the known ones, and says
    /// how many can. Pages that running sequences or arrivals will want are left alone.
    pub fn reserve(&mut self, sequence: SequenceId, ahead: Tokens) -> Tokens {
        assert!(!self.step.is_open(), "drafts are for the next step");
        let Some(handle) = self.sequences.handle(sequence) else { return Tokens::ZERO };
        if !self.may_draft(handle) {
            return Tokens::ZERO;
        }
        // One page for each that runs, for its next token.
        let kept = self.wanted_by_arrivals().pages + self.running.len() as u64;
        let spare = u64::from(self.pool.idle().get()).saturating_sub(kept);
        let size = self.limits.block_size;
        let target = &self.sequences[handle];
        // The last token that a step can yield is sampled, not drafted.
        let most = u32::try_from(target.remaining_to_ceiling()).unwrap_or(u32::MAX);
        let ahead = ahead.get().min(most.saturating_sub(1));
        let pages = (target.table.len() as u64).saturating_add(spare);
        let places = pages.saturating_mul(u64::from(size.get()));
        let room = places.saturating_sub(u64::from(target.known().get()));
        let ahead = Tokens::new(ahead.min(u32::try_from(room).unwrap_or(u32::MAX)));
        let pages = size.pages_for(target.known() + ahead).get() as usize;
        while ahead > Tokens::ZERO && self.sequences[handle].table.len() < pages {
            let block = self.pool.allocate().expect("so many were idle");
            self.sequences[handle].table.push(block);
        }
        ahead
    }

    /// Tokens that are guessed to follow a sequence, for the next plan. It takes as many of the first
    /// as there are tokens left in the step and places reserved in the sequence's pages.
    pub fn handle_drafts(&mut self, sequence: SequenceId, drafts: Vec<TokenId>) {
        assert!(!self.step.is_open(), "drafts are for the next step");
        let Some(handle) = self.sequences.handle(sequence) else { return };
        if self.may_draft(handle) {
            self.has_drafts |= !drafts.is_empty();
            self.sequences[handle].drafts = drafts;
        }
    }

    /// The drafts of a sequence: while a step is open, those that are being verified.
    pub fn drafts(&self, sequence: SequenceId) -> &[TokenId] {
        self.sequences.named(sequence).map_or(&[], |sequence| &sequence.drafts)
    }

    /// Lengthens the slots of those who have drafts while the budget lasts; returns what is left.
    pub(super) fn plan_drafts(&mut self, mut budget: Tokens) -> Tokens {
        if !core::mem::take(&mut self.has_drafts) {
            return budget;
        }
        let size = self.limits.block_size.get() as usize;
        for planned in &mut self.step.slots {
            let sequence = &mut self.sequences[planned.handle];
            let reaches = planned.start + planned.length == sequence.known();
            let places = (sequence.table.len() * size).saturating_sub(sequence.tokens.len());
            let most = if reaches {
                places.min(sequence.remaining_to_ceiling().saturating_sub(1))
            } else {
                0
            };
            sequence.drafts.truncate(most.min(budget.get() as usize));
            let count = u32::try_from(sequence.drafts.len()).expect("at most the budget");
            planned.drafts = Tokens::new(count);
            planned.length += planned.drafts;
            budget = budget.checked_sub(planned.drafts).expect("at most what is left");
        }
        budget
    }

    /// Drops all drafts: who has some gets no slot in this step. Their pages are given back after the next one.
    pub(super) fn forget_drafts(&mut self) {
        if core::mem::take(&mut self.has_drafts) {
            for handle in &self.running {
                self.sequences[*handle].drafts.clear();
            }
        }
    }

    /// Gives back the pages behind the known tokens. Nothing findable is among them.
    pub(super) fn roll_back(&mut self, handle: Handle) {
        let size = self.limits.block_size.get() as usize;
        let sequence = &mut self.sequences[handle];
        // A page more holds all that is known, and one more besides.
        while sequence.tokens.len() + size <= sequence.table.len() * size {
            let block = sequence.table.pop().expect("longer than that");
            self.pool.release(block);
        }
    }

    /// Whether all but the last known token is computed.
    fn may_draft(&self, handle: Handle) -> bool {
        let sequence = &self.sequences[handle];
        sequence.phase == Phase::Running
            && sequence.decodes()
            && sequence.remaining_from(sequence.computed) == Tokens::new(1)
    }

    fn wanted_by_arrivals(&self) -> Wanted {
        let places = (self.limits.running_max as usize).saturating_sub(self.running.len());
        let size = self.limits.block_size;
        let mut wanted = Wanted::default();
        for (number, (_, handle)) in self.waiting.iter().take(places).enumerate() {
            if number == ARRIVALS_HEEDED {
                wanted.tokens = wanted.tokens.max(u64::from(self.limits.step_tokens.get()));
                wanted.pages = u64::from(self.limits.blocks.get());
                break;
            }
            let known = self.sequences[handle].known();
            wanted.tokens += u64::from(known.get());
            wanted.pages += u64::from((size.pages_for(known) + Blocks::new(1)).get());
        }
        wanted
    }
}
