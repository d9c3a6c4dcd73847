//! Step completion: appends sampled tokens, finishes sequences, handles failed steps.
//!
//! **Invariant:** when a step is closed, every page in the prefix index was computed, and every
//! full computed page is in the index.

use alloc::vec::Vec;

use overdraft_units::{Instant, SequenceId, Tokens};

use super::scheduler::{OpenStep, PlannedSlot, Scheduler};
use super::sequence::Phase;
use super::types::{Outcome, Progress};

impl Scheduler {
    /// Closes the open step: its slots are computed, and `outcomes` says what was sampled.
    ///
    /// One outcome at most per slot; in slot order they are matched fastest. Outcomes of sequences
    /// without a slot, and of cancelled ones, are ignored.
    pub fn handle_step(&mut self, now: Instant, outcomes: &[Outcome]) {
        self.clock = self.clock.max(now);
        let mut step = core::mem::take(&mut self.step);
        // Parents before children, and before anything that this step's end makes findable.
        for block in &step.offered {
            self.pool.announce(*block);
        }
        let mut outcomes = Outcomes { list: outcomes, next: 0 };
        let mut gone = false;
        for planned in &step.slots {
            self.counts.positions_computed += u64::from(planned.length.get());
            let outcome = outcomes.of(self.sequences[planned.handle].id);
            gone |= !self.close_slot(*planned, outcome);
        }
        self.forget(&mut step, gone);
    }

    /// Closes the open step when the backend could not compute it. Its sequences are dropped; those
    /// whose owners do not know yet, for they did not cancel them, are returned.
    pub fn handle_step_lost(&mut self) -> Vec<SequenceId> {
        let mut step = core::mem::take(&mut self.step);
        // Children before parents. Whoever shares one of these has a slot in this step as well.
        for block in step.offered.iter().rev() {
            self.pool.unregister(*block);
        }
        let mut lost = Vec::with_capacity(step.slots.len());
        for planned in &step.slots {
            let sequence = &self.sequences[planned.handle];
            if sequence.phase != Phase::Leaving {
                lost.push(sequence.id);
            }
            self.drop_running(planned.handle);
        }
        self.forget(&mut step, true);
        lost
    }

    /// Books what a slot did and says whether its sequence goes on.
    fn close_slot(&mut self, planned: PlannedSlot, outcome: Option<&Outcome>) -> bool {
        let PlannedSlot { handle, start, length, drafts } = planned;
        let end = start + length.checked_sub(drafts).expect("a slot begins with a known token");
        self.offer(handle, end);
        let sequence = &mut self.sequences[handle];
        // Leaving => gone
        if sequence.phase == Phase::Leaving {
            self.drop_running(handle);
            return false;
        }
        sequence.delivered = sequence.delivered.max(end);
        let mut right = Tokens::ZERO;
        if let Some(outcome) = outcome.filter(|outcome| !outcome.appended.is_empty()) {
            debug_assert_eq!(end, sequence.known(), "only what reaches the end goes on");
            let room = sequence.remaining_to_ceiling();
            debug_assert!(outcome.appended.len() <= room, "finished at `output_max` at the latest");
            let appended = &outcome.appended;
            // Mostly one, for which a copy of a slice would be a call.
            for token in appended.iter().take(room) {
                sequence.tokens.push(*token);
            }
            // Whatever the caller says, a page holds what was computed into it.
            let pairs = sequence.drafts.iter().zip(appended);
            let equal = pairs.take_while(|(draft, token)| draft == token).count();
            right = Tokens::new(u32::try_from(equal).expect("drafts fit the context"));
        }
        sequence.drafts.clear();
        // The next token needs the logits of the last one known: without a next one, once more.
        let last = sequence.known().checked_sub(Tokens::new(1)).expect("prompts are not empty");
        sequence.computed = (end + right).min(last);
        sequence.delivered = sequence.delivered.max(sequence.computed);
        let computed = sequence.computed;
        // Without drafts that were right it is what has just been offered.
        if end < computed {
            self.offer(handle, computed);
        }
        // Stepping => gone
        if outcome.is_some_and(|outcome| outcome.progress == Progress::Finished) {
            self.drop_running(handle);
            return false;
        }
        // Stepping => Running
        self.sequences[handle].phase = Phase::Running;
        self.roll_back(handle);
        true
    }

    /// Empties the step for the next one, and the list of who runs of those who are gone.
    fn forget(&mut self, step: &mut OpenStep, gone: bool) {
        if gone {
            // Names were removed with their sequences, and handles are not given out again here.
            self.running.retain(|handle| self.sequences.get(*handle).is_some());
        }
        step.slots.clear();
        step.offered.clear();
        self.step = core::mem::take(step);
    }
}

/// Finds each slot's outcome, in one pass when both are in the same order.
struct Outcomes<'a> {
    list: &'a [Outcome],
    /// Where the search begins.
    next: usize,
}

impl<'a> Outcomes<'a> {
    fn of(&mut self, sequence: SequenceId) -> Option<&'a Outcome> {
        let next = self.list.get(self.next);
        if let Some(next) = next.filter(|outcome| outcome.sequence == sequence) {
            self.next += 1;
            return Some(next);
        }
        let (before, after) = self.list.split_at(self.next);
        let found = after.iter().chain(before).position(|outcome| outcome.sequence == sequence)?;
        let at = (self.next + found) % self.list.len();
        self.next = at + 1;
        self.list.get(at)
    }
}
