//! Draft model probing: when a draft model that is off is tried again.
//!
//! While it is off there is no new evidence about it, so it is tried on one sequence now and then,
//! within a small share of the time. The controller chooses the sequence.

use super::allocation::Field;
use super::costs::Nanos;
use overdraft_units::Ratio;

/// Initial probing budget while the draft model is off: one part in this many of the time of steps.
pub const PROBE_OFF_PART: Nanos = 64;
/// Backoff: after each probe without effect the next waits a quarter longer, at most by this many
/// quarters …
const PATIENCE_MAX: u32 = 8;
/// … and by one more per this many sequences: a batch changes less than a single sequence, and each
/// of a series of equal results is worth less.
const PATIENCE_SEQUENCES: u32 = 2;

/// Steps of a probe.
const PROBE_OFF_STEPS: u32 = 8;
/// Its depth.
pub(super) const PROBE_OFF_DEPTH: usize = 2;
/// Maximum consecutive probes: one that goes better than expected is followed by another at once.
const PROBE_OFF_AGAIN: u32 = 4;
/// Improvement that counts as better.
const PROBE_OFF_BETTER: Ratio = Ratio::percent(20);

/// The draft model tried while it is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Probe {
    /// Saved up for the next one; nothing yet when it was never tried, and then it may be at once.
    saved: Option<Nanos>,
    steps_left: u32,
    /// How often it was followed by another at once.
    again: u32,
    /// Tries in a row that changed nothing, and how many sequences decoded at the first.
    patience: u32,
    decodes: u32,
    /// What was expected of a first guess when it began.
    expected: Ratio,
    /// First guesses put to the test, and right ones.
    tried: u64,
    right: u64,
}

impl Probe {
    /// Whether it is time to try: when enough is saved, and again at once after one that went well, if no
    /// other guesses are `displaced` by that.
    pub(super) fn look(
        &mut self,
        field: &Field<'_>,
        backlog: u32,
        displaced: Nanos,
        expected: Ratio,
    ) {
        let steps = Nanos::from(PROBE_OFF_STEPS);
        let price = Self::price(field, backlog).saturating_add(steps.saturating_mul(displaced));
        // Another load is another question.
        if 2 * field.decodes < self.decodes || 2 * self.decodes < field.decodes {
            (self.patience, self.decodes) = (0, field.decodes);
        }
        let price = price.saturating_mul(Nanos::from(4 + self.patience)) / 4;
        let step = field.plain_step();
        let saved = self.saved.map_or(price, |saved| saved + step / PROBE_OFF_PART).min(price);
        self.saved = Some(saved);
        let (due, went_well) = (price <= saved, self.went_well());
        if self.steps_left == 0 && (due || displaced == 0 && went_well) {
            if due {
                let found_the_same = 0 < self.tried && !went_well;
                let most = PATIENCE_MAX.min(field.decodes / PATIENCE_SEQUENCES);
                self.patience = if found_the_same { most.min(self.patience + 1) } else { 0 };
                (self.saved, self.again, self.expected) = (Some(0), 0, expected);
            } else {
                self.again += 1;
            }
            (self.steps_left, self.tried, self.right) = (PROBE_OFF_STEPS, 0, 0);
        }
    }

    /// The draft model begins or ends: whether to begin again is a new question then.
    pub(super) fn forget(&mut self) {
        self.patience = 0;
    }

    /// Whether this step is one of a try.
    pub(super) fn take_step(&mut self) -> bool {
        let left = self.steps_left.checked_sub(1);
        self.steps_left = left.unwrap_or(0);
        left.is_some()
    }

    /// A draft of the model was put to the test.
    pub(super) fn observe(&mut self, right: usize) {
        self.tried += 1;
        self.right += u64::from(0 < right);
    }

    /// What a try takes: what has to be read, then passes of the draft model and rows of the target.
    fn price(field: &Field<'_>, backlog: u32) -> Nanos {
        let depth = u32::try_from(PROBE_OFF_DEPTH).expect("small");
        let costs = field.costs;
        let rows = costs.guesses(field.base(), depth);
        let passes = costs.first + costs.draft.at(1) * Nanos::from(depth);
        costs.reading(backlog) + Nanos::from(PROBE_OFF_STEPS) * (passes + rows)
    }

    fn went_well(&self) -> bool {
        let better = self.expected.get() + PROBE_OFF_BETTER.get();
        let enough = u64::from(PROBE_OFF_STEPS / 2) <= self.tried;
        enough && self.again < PROBE_OFF_AGAIN && better < Ratio::of(self.right, self.tried).get()
    }
}
