//! Protocol handle: the state machine of one request, and the lock under which its events reach the core.
//!
//! The core decides (`core::cascade::Protocol`); the holder of the handle reports events and executes the actions.
//! **Invariant:** a draft that a client waits for is reported once, however it ends, also when the client disconnects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::cascade::{Action, Cause, Event, Judgement, Outcome, Protocol, Terms};
use overdraft_telemetry::Clock;
use overdraft_units::Micros;

use super::state::CascadeState;

/// One request's protocol; whoever answers and whoever compares share it.
#[derive(Clone, Debug)]
pub(super) struct ProtocolHandle {
    state: Arc<CascadeState>,
    clock: Clock,
    /// Which request of the cascade it is.
    number: u64,
    protocol: Arc<Mutex<Protocol>>,
}

impl ProtocolHandle {
    /// A request that arrives now.
    pub(super) fn begin(state: &Arc<CascadeState>, clock: Clock, terms: Terms) -> Self {
        let (number, protocol) = state.begin(terms, clock.now());
        let protocol = Arc::new(Mutex::new(protocol));
        Self { state: Arc::clone(state), clock, number, protocol }
    }

    fn protocol(&self) -> MutexGuard<'_, Protocol> {
        self.protocol.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what has happened; what is to be done now.
    pub(super) fn report(&self, event: Event) -> Vec<Action> {
        self.state.handle(self.number, &mut self.protocol(), event, self.clock.now())
    }

    /// Whether the draft would be asked if anybody knew its tokenizer.
    pub(super) fn misses_draft(&self) -> bool {
        self.state.misses_draft(&self.protocol(), self.clock.now())
    }

    /// Draft tokens that are kept.
    pub(super) fn kept(&self) -> usize {
        usize::try_from(self.protocol().kept().get()).unwrap_or(usize::MAX)
    }

    pub(super) fn can_continue(&self) -> bool {
        self.protocol().can_continue()
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.protocol().is_handed_over()
    }

    pub(super) fn judgement(&self) -> Option<Judgement> {
        self.protocol().judgement()
    }

    pub(super) fn silence(&self) -> Micros {
        self.protocol().silence()
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.protocol().outcome(self.state.settings.mode)
    }
}

/// That the target answers alone, why, and whether the draft is compared with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fallback {
    pub(super) cause: Cause,
    pub(super) compares: bool,
}

impl Fallback {
    /// What the actions say of it; nothing where the target does not answer alone.
    pub(super) fn of(actions: &[Action]) -> Option<Self> {
        let cause = actions.iter().find_map(|action| match action {
            Action::AskTarget(cause) => Some(*cause),
            _ => None,
        })?;
        Some(Self { cause, compares: actions.contains(&Action::Compare) })
    }
}
