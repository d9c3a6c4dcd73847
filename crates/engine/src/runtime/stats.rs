//! Engine statistics: a snapshot that costs the reader a short lock and the loop another.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_scheduler::batch::BatchStats;
use overdraft_units::Blocks;
use tokio::sync::watch;

use super::speculate::SpeculationStats;

/// Steps that may fail one after another before the engine counts as unhealthy.
pub const FAILURES_MAX: u32 = 3;

/// Whether the engine can be sent requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// The last step succeeded, or none has run.
    #[default]
    Ready,
    /// The last steps failed; the next may succeed.
    Failing {
        /// Failures in a row.
        consecutive: u32,
    },
    /// The backend panicked, so that nothing it holds can be trusted and it is not called again; or
    /// the engine's thread has ended that way.
    Broken,
}

/// Counts since the start, and the state after the last step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineStats {
    /// The scheduler's counts.
    pub batch: BatchStats,
    /// Tokens of prompts whose computation is done, cached ones included.
    pub prompt_tokens: u64,
    /// Completion tokens.
    pub generation_tokens: u64,
    /// Steps computed.
    pub steps: u64,
    /// Steps that failed.
    pub steps_failed: u64,
    /// What guessing brought.
    pub speculation: SpeculationStats,
    /// Whether the engine can be sent requests.
    pub health: Health,
}

/// What the loop and its handles share.
#[derive(Debug)]
pub(super) struct Shared {
    stats: Mutex<EngineStats>,
    phase: AtomicU8,
    empty: watch::Sender<bool>,
}

/// Held by the engine's thread: when that unwinds, whoever asks learns that the engine is broken, and
/// whoever waits for its end waits no longer.
#[derive(Debug)]
pub(super) struct BreakGuard(pub(super) Arc<Shared>);

impl Drop for BreakGuard {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        tracing::error!("the engine's thread panicked; restart the worker");
        let mut stats = self.0.stats();
        stats.health = Health::Broken;
        (stats.batch.running, stats.batch.waiting) = (0, 0);
        stats.batch.blocks_held = Blocks::ZERO;
        self.0.publish(&stats);
        self.0.tell_empty();
    }
}

/// Where the engine is in its life; it only moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    /// Takes requests.
    Serving = 0,
    /// Takes none, finishes those it has.
    Draining = 1,
    /// Drops those it has.
    Stopping = 2,
}

impl Health {
    /// What `/health` answers.
    pub fn is_serving(self) -> bool {
        match self {
            Self::Ready => true,
            Self::Failing { consecutive } => consecutive < FAILURES_MAX,
            Self::Broken => false,
        }
    }

    /// One more step failed.
    pub(super) fn failed(self) -> Self {
        match self {
            Self::Ready => Self::Failing { consecutive: 1 },
            Self::Failing { consecutive } => {
                Self::Failing { consecutive: consecutive.saturating_add(1) }
            }
            Self::Broken => Self::Broken,
        }
    }
}

impl EngineStats {
    /// Share of the key-value cache that running sequences hold, between zero and one.
    pub fn cache_usage(&self) -> f64 {
        let blocks = self.batch.blocks.get().max(1);
        f64::from(self.batch.blocks_held.get()) / f64::from(blocks)
    }
}

impl Shared {
    pub(super) fn new(stats: &EngineStats) -> Self {
        Self {
            stats: Mutex::new(*stats),
            phase: AtomicU8::new(Phase::Serving as u8),
            empty: watch::Sender::new(false),
        }
    }

    pub(super) fn stats(&self) -> EngineStats {
        // The lock guards a copy of plain numbers; a panic elsewhere cannot leave them half done.
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, stats: &EngineStats) {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = *stats;
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// Moves on to `phase`; never back.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// No sequence is left and none will come.
    pub(super) fn tell_empty(&self) {
        self.empty.send_replace(true);
    }

    pub(super) async fn wait_empty(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.empty.subscribe().wait_for(|&empty| empty).await;
    }
}
