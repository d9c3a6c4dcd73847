//! Memory drift detection: finds fragmented workers, drains and restarts them one at a time.
//!
//! An engine that has run for days may hold memory that its cache does not account for, until an
//! allocation fails. So the share of memory in use is compared with its expected value: the
//! baseline after the worker's start, plus what its cache has taken since. If a drift above the
//! threshold lasts, the worker is drained, restarted, and let back in once it is ready.
//!
//! ```text
//! Watching ──drift lasts──▶ Draining ──nothing in flight, or time is up──▶ Restarting
//!     ▲                        │ called off, or it became the last           │ gone, and up again;
//!     └────────────────────────┴─────────────── rejoin ─────────────────────┘ failed; out of time
//! ```
//!
//! Invariant: at most one worker of a pool is under repair, and never the last one that serves a
//! model (`docs/design/scaling.md#r6`).

mod state;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros};

use self::state::{Phase, State};
use crate::fleet::{Fleet, Worker, WorkerId};
use crate::restart::Backoff;

/// A reading is no evidence any more once it is this old, unless the next one is not due yet.
pub const READING_STALE_AFTER: Micros = Micros::new(60_000_000);

/// Where readings are rare, one is evidence until so many more should have come.
const READINGS_MISSED: u64 = 3;

/// When a worker is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentSettings {
    /// Drift that is too much, in thousandths of the memory.
    pub threshold_permille: u16,
    /// For how long it must have been too much.
    pub lasting: Micros,
    /// From coming up until memory in use is what later readings are compared with.
    pub settle: Micros,
    /// How long requests in flight may take to finish.
    pub drain: Micros,
    /// How long a restart may take, from the hook to being up.
    pub ready: Micros,
    /// From one restart of a worker to its next.
    pub backoff: Backoff,
    /// Share of the memory that the cache takes as it fills, in thousandths; nothing for engines
    /// that reserve all of it when they start, as vLLM, `SGLang` and llama-server do.
    pub kv_memory_permille: u16,
}

impl Default for FragmentSettings {
    fn default() -> Self {
        Self {
            threshold_permille: 100,
            lasting: Micros::new(60_000_000),
            settle: Micros::new(60_000_000),
            drain: Micros::new(300_000_000),
            ready: Micros::new(900_000_000),
            backoff: Backoff {
                first: Micros::new(600_000_000),
                max: Micros::new(6 * 3_600_000_000),
            },
            kv_memory_permille: 0,
        }
    }
}

/// A look at a worker's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it was taken.
    pub at: Instant,
    /// Share of the memory in use, in thousandths.
    pub memory_permille: u16,
    /// Share of the worker's cache in use then, in thousandths.
    pub kv_permille: u16,
    /// How soon the next one is due.
    pub every: Micros,
}

impl Reading {
    /// Whether it is evidence still.
    fn is_fresh(&self, now: Instant) -> bool {
        let rare = Micros::new(self.every.get().saturating_mul(READINGS_MISSED));
        now.since(self.at) <= READING_STALE_AFTER.max(rare)
    }
}

/// What the shell knows of a worker's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its pool, as a number.
    pub pool: u8,
    /// Whether it can be restarted.
    pub cure: Cure,
}

/// What can be done about a worker whose memory has fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// A hook restarts it.
    Restart,
    /// Nothing; it is only watched.
    Nothing,
}

/// What a restart hook said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
    /// The old process has ended.
    Gone,
    /// It will, some time soon.
    Accepted,
    /// Nothing was restarted.
    Failed,
}

/// What to do about one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send it nothing new.
    Drain {
        /// How far its memory has drifted, in thousandths.
        drift_permille: u16,
    },
    /// Call its hook, and report what that said to [`Watch::hooked`].
    Restart,
    /// Send it requests again, unless it is drained for another reason.
    Rejoin(Outcome),
}

/// How a repair ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The worker runs afresh.
    Restarted,
    /// The drain was ended by another order than the repair's.
    CalledOff,
    /// Others went down meanwhile, so that it is needed.
    Needed,
    /// The hook failed.
    HookFailed,
    /// It did not come up again in time.
    TimedOut,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Restarted, Self::CalledOff, Self::Needed, Self::HookFailed, Self::TimedOut];

    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::CalledOff => "called_off",
            Self::Needed => "needed",
            Self::HookFailed => "hook_failed",
            Self::TimedOut => "timed_out",
        }
    }
}

/// What is known of the memory of each worker, and which of them is under repair.
#[derive(Debug, Default)]
pub struct Watch {
    /// Bounded by the fleet: those that left are dropped with the next look.
    states: BTreeMap<WorkerId, State>,
}

impl Watch {
    /// Takes in a look at the memory of a worker; it says something of the worker only while that
    /// is up.
    pub fn read(
        &mut self,
        id: WorkerId,
        worker: &Worker,
        reading: Reading,
        settings: &FragmentSettings,
    ) {
        self.state(id, worker).read(worker, reading, settings);
    }

    /// How far a worker's memory has drifted, in thousandths; `None` while there is nothing to
    /// compare with.
    pub fn drift_permille(&self, worker: WorkerId, settings: &FragmentSettings) -> Option<u16> {
        self.states.get(&worker)?.drift_permille(settings)
    }

    /// Whether a worker is being drained or restarted.
    pub fn is_under_repair(&self, worker: WorkerId) -> bool {
        self.states.get(&worker).is_some_and(|state| state.phase != Phase::Watching)
    }

    /// Takes in what a restart hook said.
    pub fn hooked(&mut self, worker: WorkerId, said: Hooked) {
        let Some(state) = self.states.get_mut(&worker) else { return };
        if let Phase::Restarting { gone, failed, .. } = &mut state.phase {
            *gone |= said == Hooked::Gone;
            *failed |= said == Hooked::Failed;
        }
    }

    /// The next thing to do, if anything; ask again until there is nothing.
    pub fn look(
        &mut self,
        fleet: &Fleet,
        place: impl Fn(WorkerId) -> Place,
        settings: &FragmentSettings,
        now: Instant,
    ) -> Option<(WorkerId, Step)> {
        self.states.retain(|&id, state| fleet.is_member(id) && fleet.worker(id).tag() == state.tag);
        let ids: Vec<WorkerId> = self.states.keys().copied().collect();
        ids.into_iter().find_map(|id| {
            let worker = fleet.worker(id);
            let pool = place(id).pool;
            let spare = is_spare(id, worker, fleet, |other| place(other).pool == pool);
            let busy = self.states.iter().any(|(&other, state)| {
                other != id && state.phase != Phase::Watching && place(other).pool == pool
            });
            let may_begin = spare && !busy && place(id).cure == Cure::Restart;
            let state = self.states.get_mut(&id)?;
            let step = match state.phase {
                Phase::Watching => state.begin(worker, may_begin, settings, now),
                Phase::Draining { since } => state.drain(worker, since, spare, settings, now),
                Phase::Restarting { .. } => state.restart(worker, settings, now),
            };
            step.map(|step| (id, step))
        })
    }

    fn state(&mut self, id: WorkerId, worker: &Worker) -> &mut State {
        let state = self.states.entry(id).or_insert_with(|| State::new(worker.tag()));
        if state.tag != worker.tag() {
            // The place is another worker's now.
            *state = State::new(worker.tag());
        }
        state
    }
}

/// Whether others of its pool serve every model that it serves.
fn is_spare(
    id: WorkerId,
    worker: &Worker,
    fleet: &Fleet,
    of_pool: impl Fn(WorkerId) -> bool,
) -> bool {
    let stands_in = |model: Option<&String>| {
        fleet.workers().any(|(other, stand_in)| {
            other != id
                && of_pool(other)
                && stand_in.health().is_up()
                && !stand_in.is_draining()
                && model.is_none_or(|model| stand_in.models().contains(model))
        })
    };
    stands_in(None) && worker.models().iter().all(|model| stands_in(Some(model)))
}
