//! Guard of the batch: when nothing is drafted, however good drafts are.
//!
//! A cache that is nearly full, a preemption a moment ago, and prompts that wait for rows speak
//! against drafts whatever their acceptance is (`docs/design/speculation.md#r5`).

use overdraft_units::{Instant, Micros, Ratio};

use super::allocation::Field;
use super::facts::{Load, Reason};

/// KV cache use above which nothing is drafted.
const CACHE_FULL: Ratio = Ratio::percent(95);
/// Time after a preemption during which nothing is drafted.
const PREEMPTION_ECHO: Micros = Micros::new(1_000_000);

/// What is remembered of preemptions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    /// Preemptions that were seen so far.
    preemptions: u64,
    /// When the last of them was seen.
    pressed: Option<Instant>,
}

impl Guard {
    /// Why nothing is drafted in a step of this load; `None` where drafts may be made.
    pub(super) fn objection(
        &mut self,
        now: Instant,
        load: &Load,
        field: &Field<'_>,
    ) -> Option<Reason> {
        if self.preemptions < load.preemptions {
            self.preemptions = load.preemptions;
            self.pressed = Some(now);
        }
        let pressed = self.pressed.is_some_and(|then| now.since(then) < PREEMPTION_ECHO);
        if pressed || CACHE_FULL < load.held {
            return Some(Reason::CacheFull);
        }
        // Twice the rows for less than half as much again: memory is the limit, and rows are free.
        let rows = field.decodes + field.prefill;
        let (one, two) = (field.costs.verify.at(rows), field.costs.verify.at(2 * rows));
        let bound = one.saturating_add(one / 2) <= two;
        (0 < load.waiting && bound).then_some(Reason::Queue)
    }
}
