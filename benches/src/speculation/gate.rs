//! Turn taking: engines under comparison compute one at a time and switch between two steps.
//!
//! A machine that others have, too, is slow for parts of a second. Engines that change over after ten steps to a few dozen,
//! each with its load as it was, meet those parts alike; a load that began anew in each turn could not be as short.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use overdraft_engine::{Observation, Observer};
use overdraft_telemetry::Clock;
use overdraft_units::Instant;
use tokio::sync::Notify;
use tokio::time::timeout;

/// An engine that ends no step for so long is broken.
const STEP_MAX: Duration = Duration::from_mins(1);

/// Where an engine waits after a step while others have their turn. Open at first, and again once it is dropped.
pub(crate) struct Gate(Arc<Shared>);

/// The engine's side.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    clock: Clock,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// It was opened.
    opened: Condvar,
    /// The engine came to stand before it.
    reached: Notify,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Since when the engine has stood before it.
    standing: Option<Instant>,
}

impl Gate {
    /// Both sides of one.
    pub(crate) fn new(clock: Clock) -> (Self, Keeper) {
        let shared = Arc::new(Shared::default());
        (Self(Arc::clone(&shared)), Keeper { shared, clock })
    }

    /// Lets the engine go on.
    pub(crate) fn open(&self) {
        self.0.lock().closed = false;
        self.0.opened.notify_one();
    }

    /// Has the engine stop after the step it is in, and tells when that was. It must have something to compute.
    pub(crate) async fn close(&self) -> Result<Instant> {
        self.0.lock().closed = true;
        let standing = async {
            loop {
                if let Some(since) = self.0.lock().standing {
                    return since;
                }
                self.0.reached.notified().await;
            }
        };
        timeout(STEP_MAX, standing).await.context("an engine does not end a step within a minute")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Keeper {
    fn observe(&mut self, observation: &Observation) {
        // Told when a step was timed, and before the next is begun: no wait is taken for a step.
        if !matches!(observation, Observation::StepRan { .. }) {
            return;
        }
        let mut state = self.shared.lock();
        if state.closed {
            state.standing = Some(self.clock.now());
            self.shared.reached.notify_one();
            let opened = &self.shared.opened;
            state = opened
                .wait_while(state, |state| state.closed)
                .unwrap_or_else(PoisonError::into_inner);
            state.standing = None;
        }
    }
}
