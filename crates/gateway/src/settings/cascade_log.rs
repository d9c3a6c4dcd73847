//! Event log of a cascade's protocol, in memory.
//!
//! Who embeds the gateway may set one: what each request reported and what was decided, in the order in which it was.
//! Replayed through `core::cascade::Protocol` from a cascade that has learnt nothing, it gives the same actions.

use std::sync::{Arc, Mutex, PoisonError};

use overdraft_core::cascade::{Action, Event, Terms};
use overdraft_units::Instant;

/// Maximum entries; later ones are left out.
const ENTRIES_MAX: usize = 1 << 16;

/// One event, and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CascadeLogEntry {
    /// Which request of the cascade.
    pub request: u64,
    /// What is known of it from its arrival on.
    pub terms: Terms,
    /// When the event was reported.
    pub at: Instant,
    /// What happened.
    pub event: Event,
    /// What was to be done.
    pub actions: Vec<Action>,
}

/// The log; copies are the same log.
#[derive(Clone, Debug, Default)]
pub struct CascadeLog(Arc<Mutex<Vec<CascadeLogEntry>>>);

impl CascadeLog {
    /// All entries so far.
    pub fn entries(&self) -> Vec<CascadeLogEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add(&self, entry: CascadeLogEntry) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() < ENTRIES_MAX {
            entries.push(entry);
        }
    }
}

impl PartialEq for CascadeLog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CascadeLog {}
