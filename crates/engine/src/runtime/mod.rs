//! Engine runtime: one thread that owns the model, and handles to it.
//!
//! [`Engine::start`] spawns the thread; [`EngineHandle::submit`] asks it for a completion;
//! [`RequestStream`] tells of it. Everything between them is bounded: the inbox, the scheduler's
//! queue, each stream's events.

mod blocks;
mod driver;
mod handle;
mod live;
mod observe;
mod pass;
mod speculate;
mod stats;
#[cfg(test)]
mod tests;
mod text;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use overdraft_scheduler::batch::{BatchLimits, BatchStats, Batching};
use overdraft_telemetry::Clock;
use overdraft_units::Tokens;

pub use self::blocks::{BYTES_AT_ONCE, BlockError, BlockPrefix, Imported};
pub use self::handle::{EngineHandle, GuessError, INBOX_MAX, RequestStream, SubmitError};
pub use self::observe::{CacheChanges, End, Observation, Observer, RequestRecord, Unobserved};
pub use self::pass::EVERY_ROWS_MAX;
pub use self::speculate::{DraftMismatch, PROFILE_MAX, Speculation, SpeculationStats};
pub use self::stats::{EngineStats, FAILURES_MAX, Health};
pub use overdraft_tokenizer::{Detokenize, SpecialTokens, TextCodec};

use self::driver::{Driver, Parts};
use self::stats::{Phase, Shared};
use crate::backend::{Backend, ModelShape};

/// The engine's bounds and its clock.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// Tokens computed in one step at most, over all sequences.
    pub step_tokens: Tokens,
    /// Sequences that may run at once.
    pub running_max: u32,
    /// Sequences that may wait at once.
    pub waiting_max: u32,
    /// Prompt and completion of one sequence at most; `None` is the model's context.
    pub context: Option<Tokens>,
    /// What a step may compute together.
    pub batching: Batching,
    /// What the durations are measured by.
    pub clock: Clock,
    /// Decides the draws of requests that bring no seed.
    pub entropy: u64,
}

/// A running engine. Dropping it stops it at once; [`EngineHandle::drain`] first to be kind.
#[derive(Debug)]
pub struct Engine {
    handle: EngineHandle,
    thread: Option<JoinHandle<()>>,
}

/// The engine cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Nothing could ever run.
    #[error("`0` is not a valid `{bound}`; expected at least 1")]
    ZeroBound {
        /// Which bound.
        bound: &'static str,
    },
    /// The draft model does not go with the target.
    #[error(transparent)]
    Draft(#[from] DraftMismatch),
    /// The operating system gives no thread.
    #[error("the engine's thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl EngineSettings {
    /// Ordinary bounds, and fresh entropy.
    pub fn new(clock: Clock) -> Self {
        Self {
            step_tokens: Tokens::new(512),
            running_max: 64,
            waiting_max: 1024,
            context: None,
            batching: Batching::Mixed,
            clock,
            // The standard library seeds its hash maps from the operating system.
            entropy: RandomState::new().build_hasher().finish(),
        }
    }

    fn limits(&self, shape: ModelShape) -> Result<BatchLimits, StartError> {
        let cache = shape.blocks.get().saturating_mul(shape.block_size.get());
        let context = self.context.unwrap_or(shape.context).min(shape.context);
        let bounds = [
            ("step_tokens", self.step_tokens.get()),
            ("running_max", self.running_max),
            ("waiting_max", self.waiting_max),
            ("context", context.get()),
            ("blocks", shape.blocks.get()),
            ("vocabulary", u32::try_from(shape.vocabulary).unwrap_or(u32::MAX)),
        ];
        if let Some(&(bound, _)) = bounds.iter().find(|(_, value)| *value == 0) {
            return Err(StartError::ZeroBound { bound });
        }
        Ok(BatchLimits {
            step_tokens: self.step_tokens,
            running_max: self.running_max,
            waiting_max: self.waiting_max,
            blocks: shape.blocks,
            block_size: shape.block_size,
            // A completion without a limit of its own must fit the cache.
            context: context.min(Tokens::new(cache)),
            batching: self.batching,
        })
    }
}

impl Engine {
    /// Starts the engine's thread.
    ///
    /// # Errors
    /// [`StartError`] when a bound is zero or no thread is to be had.
    pub fn start(
        backend: Box<dyn Backend>,
        codec: Arc<dyn TextCodec>,
        settings: EngineSettings,
        observer: Box<dyn Observer>,
    ) -> Result<Self, StartError> {
        Self::start_guessing(backend, codec, settings, observer, Speculation::default())
    }

    /// Starts the engine's thread, with a drafter.
    ///
    /// # Errors
    /// [`StartError`] as [`start`](Self::start), and when the draft model does not fit.
    pub fn start_guessing(
        backend: Box<dyn Backend>,
        codec: Arc<dyn TextCodec>,
        settings: EngineSettings,
        observer: Box<dyn Observer>,
        speculation: Speculation,
    ) -> Result<Self, StartError> {
        let shape = backend.shape();
        speculation.check(shape)?;
        let guesses = speculation.guesses();
        let limits = settings.limits(shape)?;
        let layout = backend.block_layout().map(Arc::new);
        let batch = BatchStats { blocks: shape.blocks, ..BatchStats::default() };
        let shared = Arc::new(Shared::new(&EngineStats { batch, ..EngineStats::default() }));
        let (inbox, letters) = sync_channel(INBOX_MAX);
        let parts = Parts { clock: settings.clock, limits, speculation };
        let driver = Driver::new(backend, observer, Arc::clone(&shared), letters, parts);
        let thread = Builder::new().name("overdraft-engine".to_owned()).spawn(|| driver.run())?;
        let handle = EngineHandle {
            inbox,
            shared,
            shape,
            layout,
            context: limits.context,
            waiting_max: limits.waiting_max,
            codec,
            clock: settings.clock,
            entropy: settings.entropy,
            guesses,
            next: Arc::new(AtomicU64::new(0)),
        };
        Ok(Self { handle, thread: Some(thread) })
    }

    /// A way to the engine.
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }

    /// Stops at once: requests still running end with [`Event::Failed`](crate::Event::Failed).
    /// Blocks for at most one step.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.enter(Phase::Stopping);
        if let Some(thread) = self.thread.take() {
            // The loop catches panics; one outside it has nothing left to stop.
            let _ = thread.join();
        }
    }
}
