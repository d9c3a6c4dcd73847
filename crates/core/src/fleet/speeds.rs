//! Worker speeds (EWMA): prefill pace, decode steps, round trips and arrival rates.

use overdraft_units::{Instant, Micros, Tokens};

use super::traffic::Behind;
use super::{Fleet, WorkerId};
use crate::estimate::bare;

impl Fleet {
    /// The answer to a prompt of `tokens` has come whole, and its attempt has been ended.
    pub fn computed(&mut self, worker: WorkerId, tokens: u64, now: Instant) {
        let fleet_pace = self.prefill_rate.pace();
        let mut on = self.changing(worker);
        let pace = on.prefill_rate.pace_within(fleet_pace);
        let Some(seen) = on.unseen.answered(tokens, now).filter(|seen| seen.refutes(pace)) else {
            return;
        };
        on.prefill_rate.note_beside(seen.tokens, seen.took, fleet_pace, now, Micros::ZERO);
        drop(on);
        self.prefill_rate.note(seen.tokens, seen.took);
    }

    /// An answer of `worker` had `tokens` after its first, which took that long.
    pub fn decoded(&mut self, worker: WorkerId, tokens: Tokens, took: Micros) {
        let fleet_bare = self.step_bare.micros();
        let mut on = self.changing(worker);
        on.step_time.note(tokens, took);
        let bare = bare(took, on.booked.tokens);
        on.step_bare.note_beside(tokens, bare, fleet_bare);
        drop(on);
        self.step_bare.note(tokens, bare);
    }

    /// A probe of `worker` was answered after so long.
    pub fn round_trip(&mut self, worker: WorkerId, took: Micros) {
        let mut on = self.changing(worker);
        // The least of late: what is above it is the worker's own business, and routes change.
        let before = on.round_trip.get();
        let grown = before + before / ROUND_TRIP_GROWTH + 1;
        on.round_trip = match before {
            0 => took,
            _ => Micros::new(took.get().min(grown)),
        };
    }

    /// How many a prompt delays at each of its workers.
    pub(crate) fn behind(&self) -> Behind {
        Behind::of(&self.traffic, self.prefill_rate.pace())
    }

    /// How long a decode step takes the fleet as a whole without anything in a cache.
    pub const fn step_bare(&self) -> Micros {
        self.step_bare.micros()
    }
}

/// The least round trip that was seen is forgotten by one part in so many with each longer one.
const ROUND_TRIP_GROWTH: u64 = 64;

/// The part of the time to a first token in which prompts were computed: not that on the way, nor that of the
/// step that was under way when the request came. At least an eighth.
pub(super) fn computing(age: Micros, round_trip: Micros, step: Micros) -> Micros {
    let other = round_trip.get().saturating_add(step.get());
    Micros::new(age.get().saturating_sub(other).max(age.get() / 8))
}
