//! Progress counters of a run, readable while it goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum kinds of failures that are counted separately; the rest are `other`.
pub const KINDS_MAX: usize = 32;

/// Counts that grow while a run goes on.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicU64,
    ended: AtomicU64,
    wrong: Mutex<BTreeMap<String, u64>>,
}

impl Progress {
    /// Requests that are under way.
    pub fn flying(&self) -> u64 {
        self.begun.load(Ordering::Relaxed).saturating_sub(self.ended())
    }

    /// Requests that have ended, however they did.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// What went wrong, and how often.
    pub fn wrong(&self) -> Vec<(String, u64)> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.iter().map(|(kind, count)| (kind.clone(), *count)).collect()
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, kind: &str) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = wrong.contains_key(kind) || wrong.len() + 1 < KINDS_MAX;
        *wrong.entry(if is_known { kind } else { "other" }.to_owned()).or_default() += 1;
    }
}
