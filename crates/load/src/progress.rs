//! Progress counters of a run, readable while it goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_units::Micros;

/// Maximum kinds of failures that are counted separately; the rest are `other`.
pub const KINDS_MAX: usize = 32;

/// Times between tokens that are kept at most.
pub const GAPS_MAX: usize = 65_536;

/// Counts that grow while a run goes on.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicU64,
    first_tokens: AtomicU64,
    ended: AtomicU64,
    wrong: Mutex<BTreeMap<String, u64>>,
    gaps: Mutex<Option<Vec<Micros>>>,
}

impl Progress {
    /// Requests that are under way.
    pub fn flying(&self) -> u64 {
        self.begun.load(Ordering::Relaxed).saturating_sub(self.ended())
    }

    /// Requests whose first token has come.
    pub fn first_tokens(&self) -> u64 {
        self.first_tokens.load(Ordering::Relaxed)
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

    /// Keeps the times between tokens of all answers from now on, at most [`GAPS_MAX`].
    pub fn keep_gaps(&self) {
        *self.kept_gaps() = Some(Vec::new());
    }

    /// The times between tokens since [`keep_gaps`](Self::keep_gaps), and keeps no more.
    pub fn take_gaps(&self) -> Vec<Micros> {
        self.kept_gaps().take().unwrap_or_default()
    }

    fn kept_gaps(&self) -> MutexGuard<'_, Option<Vec<Micros>>> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gap(&self, gap: Micros) {
        if let Some(gaps) = self.kept_gaps().as_mut().filter(|gaps| gaps.len() < GAPS_MAX) {
            gaps.push(gap);
        }
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn first_token(&self) {
        self.first_tokens.fetch_add(1, Ordering::Relaxed);
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
