//! Autoscaling: how many workers the load of a pool or model needs.
//!
//! A [`Load`] is the sum over the workers of a pool, or over those of it that serve one model.
//! Three signals are each divided by their target per worker ([`Targets`]), and the largest
//! quotient counts: a pool short of cache is short, however short its queue. The quotient stays in
//! thousandths for metrics and is rounded up to whole workers for the autoscaler. [`Hold`] keeps
//! the result from flapping.
//!
//! Invariant: an unknown signal never makes a pool smaller (`docs/design/scaling.md#r2`).

mod hold;
mod misses;
#[cfg(test)]
mod tests;
mod wake;

use overdraft_units::{Instant, Micros};

pub use self::hold::{Cooldown, Hold};
pub use self::misses::{MISS_LASTS, MISS_RESTS, MISS_WANTED, Misses};
pub use self::wake::WakeTurn;
use crate::fleet::Worker;

/// A worker's word on its load is not known any more once it is this old.
pub const LOAD_STALE_AFTER: Micros = Micros::new(15_000_000);

/// What one worker is meant to carry of each signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Targets {
    /// Share of its cache in use, in thousandths; below the valve at 850 (A13).
    pub kv_permille: u16,
    /// Requests that wait (D8); the write-up's other figure is 50 (B6).
    pub waiting: u32,
    /// Requests that are computed (C8).
    pub running: u32,
}

impl Default for Targets {
    fn default() -> Self {
        Self { kv_permille: 700, waiting: 10, running: 128 }
    }
}

/// What some workers carry together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Workers that are there and not on their way out, up or not.
    pub members: u32,
    /// Those of them that may be chosen.
    pub serving: u32,
    /// Those that serve and whose load is known.
    pub known: u32,
    /// Sum over the known ones of the share of their cache in use, in thousandths.
    pub kv_permille: u64,
    /// Requests that wait at workers or before them.
    pub waiting: u64,
    /// Requests that are computed; those that wait are counted apart.
    pub running: u64,
}

impl Load {
    /// Adds one worker. One that drains is on its way out: its load goes with it.
    pub fn add(&mut self, worker: &Worker, now: Instant) {
        if worker.is_draining() {
            return;
        }
        self.members += 1;
        if !worker.health().is_up() {
            return;
        }
        self.serving += 1;
        let fresh = worker.scraped().filter(|scraped| now.since(scraped.at) <= LOAD_STALE_AFTER);
        let waiting = fresh.map_or(0, |scraped| scraped.waiting);
        self.running += u64::from(worker.requests_all().saturating_sub(waiting));
        let Some(scraped) = fresh else { return };
        self.waiting += u64::from(scraped.waiting);
        // What was sent since its last word counts where the cache's size is known.
        let believed = worker.kv_used().zip(worker.kv_capacity()).and_then(|(used, capacity)| {
            used.saturating_mul(1_000).checked_div(u64::from(capacity.get()))
        });
        let Some(kv) = believed.or(scraped.kv_use_permille.map(u64::from)) else { return };
        self.known += 1;
        self.kv_permille += kv.min(1_000);
    }

    /// Adds requests that wait before the workers, for room on any of them.
    pub const fn add_queued(&mut self, requests: u64) {
        self.waiting = self.waiting.saturating_add(requests);
    }

    /// Mean share of the cache in use, in thousandths; `None` while nobody's is known.
    pub fn kv_mean_permille(&self) -> Option<u64> {
        self.kv_permille.checked_div(u64::from(self.known))
    }

    /// Whether there is anything to do, or no telling.
    pub const fn is_active(&self) -> bool {
        0 < self.running || 0 < self.waiting || self.is_unknown()
    }

    /// Whether workers are there whose load is not known.
    pub const fn is_unknown(&self) -> bool {
        self.known < self.serving || (self.serving == 0 && 0 < self.members)
    }

    /// How many workers each signal wants by itself, in thousandths.
    pub fn wants(&self, targets: Targets) -> [(Signal, u64); 3] {
        let per = |load: u64, target: u64| load.saturating_mul(1_000) / target.max(1);
        [
            (Signal::Kv, per(self.kv_permille, u64::from(targets.kv_permille))),
            (Signal::Waiting, per(self.waiting, u64::from(targets.waiting))),
            (Signal::Running, per(self.running, u64::from(targets.running))),
        ]
    }

    /// How many workers this wants.
    ///
    /// A worker whose load is not known asks for no more than there are and lets none go: a fresh
    /// replica must not call for another one, and a blind spot must not end one that works.
    pub fn desired(&self, targets: Targets) -> Desired {
        let mut most = (Signal::Kv, 0);
        for (signal, milli) in self.wants(targets) {
            if most.1 < milli {
                most = (signal, milli);
            }
        }
        let present = if self.serving == 0 { self.members } else { self.serving };
        let held = u64::from(present) * 1_000;
        if self.is_unknown() && most.1 < held {
            most = (Signal::Unknown, held);
        }
        Desired { milli: most.1, by: most.0 }
    }
}

/// How many workers some load wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired {
    /// In thousandths of a worker.
    pub milli: u64,
    /// The signal that wants the most.
    pub by: Signal,
}

impl Desired {
    /// In whole workers: a load is never rounded away.
    pub const fn workers(self) -> u64 {
        self.milli.div_ceil(1_000)
    }
}

/// What wants workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Cache in use.
    Kv,
    /// Requests that wait.
    Waiting,
    /// Requests that are computed.
    Running,
    /// Nothing is known, so the present number is held.
    Unknown,
}

impl Signal {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Unknown => "unknown",
        }
    }
}
