//! Latency stopwatches: measure how long a draft or the target takes.
//!
//! The core learns from these measurements whether drafts pay, how long one may take and how many
//! may be in flight. **Invariant:** a draft that a client waits for is reported once, however it
//! ends, also when the client disconnects.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::cascade::{Traits, Upshot, Waited};
use overdraft_units::Micros;
use tokio::time::Instant;

use super::state::CascadeState;

/// A draft that a client waits for, until the verdict.
#[derive(Debug)]
pub(super) struct Wait {
    state: Arc<CascadeState>,
    traits: Traits,
    begun: Instant,
    is_over: bool,
}

impl Wait {
    /// It is asked now.
    pub(super) fn begin(state: &Arc<CascadeState>, traits: Traits) -> Self {
        state.timed(overdraft_core::cascade::Payback::handle_start);
        Self { state: Arc::clone(state), traits, begun: Instant::now(), is_over: false }
    }

    /// How long it may take until it is given up.
    pub(super) fn limit(&self) -> Duration {
        self.state.limit(&self.traits)
    }

    /// This came of it; nothing where it could not even be asked, which cost nobody any time.
    pub(super) fn end(mut self, upshot: Option<Upshot>) {
        self.is_over = true;
        let (traits, took) = (self.traits, micros(self.begun.elapsed()));
        self.state.timed(|payback| match upshot {
            Some(upshot) => payback.handle_verdict(&traits, took, upshot, Waited::Client),
            None => payback.handle_left(&traits, Micros::ZERO),
        });
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.is_over {
            let (traits, took) = (self.traits, micros(self.begun.elapsed()));
            self.state.timed(|payback| payback.handle_left(&traits, took));
        }
    }
}

/// The target's answer to a client, until it is whole.
#[derive(Debug)]
pub(super) struct Telling {
    state: Arc<CascadeState>,
    traits: Traits,
    begun: Instant,
    first: Option<Micros>,
}

impl Telling {
    /// It is asked now.
    pub(super) fn begin(state: &Arc<CascadeState>, traits: Traits) -> Self {
        Self { state: Arc::clone(state), traits, begun: Instant::now(), first: None }
    }

    /// Its first token is there.
    pub(super) fn first(&mut self) {
        self.first = Some(micros(self.begun.elapsed()));
    }

    /// All of it is.
    pub(super) fn end(self) {
        let end = micros(self.begun.elapsed());
        self.state.timed(|payback| payback.handle_target(&self.traits, self.first, end));
    }
}

/// A span in the core's units.
pub(super) fn micros(span: Duration) -> Micros {
    Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
