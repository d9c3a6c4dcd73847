//! Forward passes of a step: splits a plan where prompt log probabilities are wanted.
//!
//! A plan is one pass, unless prompt log probabilities are wanted: they need a row of logits for
//! every position of a chunk, and a row is a vocabulary wide. Such a chunk is computed in pieces,
//! each in a pass of its own, the last of them together with everything else. **Invariant:** a
//! slot's pieces are in order, and no other slot runs before the last of them, because it may share
//! their pages; so passes change when something is computed, never what.

use overdraft_scheduler::batch::{Logits, Plan, Slot};
use overdraft_units::Tokens;

/// Rows of logits in a pass, beside the one row of each other slot: 64 rows of a vocabulary of
/// 151,936 are 39 MB.
pub const EVERY_ROWS_MAX: u32 = 64;

/// Splits a plan so that no pass yields more than `rows_max` rows for slots that yield every row.
pub(super) fn passes(plan: &Plan, rows_max: u32) -> Vec<Vec<Slot>> {
    // Drafts were given no more rows than a pass may have.
    let every = |slot: &&Slot| slot.logits == Logits::Every && slot.drafts == Tokens::ZERO;
    let wanted: u32 = plan.slots.iter().filter(every).map(|slot| slot.length.get()).sum();
    if wanted <= rows_max {
        return vec![plan.slots.clone()];
    }
    let mut passes = Vec::new();
    let mut last = plan.slots.clone();
    let sharers = u32::try_from(last.iter().filter(every).count()).expect("slots fit 32 bits");
    let share = (rows_max / sharers).max(1);
    let prompts = |slot: &&mut Slot| slot.logits == Logits::Every && slot.drafts == Tokens::ZERO;
    for slot in last.iter_mut().filter(prompts) {
        while slot.length.get() > share {
            let length = Tokens::new(rows_max.min(slot.length.get() - share));
            passes.push(vec![Slot { length, ..*slot }]);
            slot.start += length;
            slot.length = Tokens::new(slot.length.get() - length.get());
        }
    }
    passes.push(last);
    passes
}

/// Rows of logits that a slot yields.
pub(super) fn rows(slot: &Slot) -> u32 {
    match slot.logits {
        Logits::None => 0,
        Logits::Last => 1,
        Logits::Every => slot.length.get(),
    }
}
