//! Store status: health and fault counts, readable without waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fault::Fault;

/// Read or write. A full Redis can still be read, so each side has its own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It reads.
    Reads,
    /// It writes.
    Writes,
}

/// The state of a store.
#[derive(Debug, Default)]
pub struct Status {
    reads_fail: AtomicBool,
    writes_fail: AtomicBool,
    faults: [AtomicU64; Fault::ALL.len()],
    mended: AtomicU64,
    gateways: AtomicU64,
}

impl Status {
    /// Whether gateways go on alone for now.
    pub fn is_degraded(&self) -> bool {
        self.reads_fail.load(Ordering::Relaxed) || self.writes_fail.load(Ordering::Relaxed)
    }

    /// Whether the last write went through, or none was tried.
    pub(crate) fn takes_writes(&self) -> bool {
        !self.writes_fail.load(Ordering::Relaxed)
    }

    /// How often each fault occurred.
    pub fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        let count = |place: &AtomicU64| place.load(Ordering::Relaxed);
        Fault::ALL.into_iter().zip(self.faults.iter().map(count))
    }

    /// Values that were somebody else's, or nobody's, and were thrown away.
    pub fn mended(&self) -> u64 {
        self.mended.load(Ordering::Relaxed)
    }

    /// How many gateways share, this one included, when that was last known; at least one.
    pub fn gateways(&self) -> u64 {
        self.gateways.load(Ordering::Relaxed).max(1)
    }

    /// Nothing is asked any more, so nothing fails.
    pub(crate) fn clear(&self) {
        self.reads_fail.store(false, Ordering::Relaxed);
        self.writes_fail.store(false, Ordering::Relaxed);
        self.note_gateways(1);
    }

    pub(crate) fn note_gateways(&self, count: usize) {
        self.gateways.store(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn note_mended(&self) {
        self.mended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fault, where nobody is to be told how the store is.
    pub(crate) fn count(&self, fault: Fault) {
        let index = Fault::ALL.iter().position(|known| *known == fault);
        if let Some(count) = index.and_then(|index| self.faults.get(index)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes in how a command ended; tells the log where that changes how the store is.
    pub(crate) fn note(&self, side: Side, ended: Option<Fault>, place: &str) {
        if let Some(fault) = ended {
            self.count(fault);
        }
        let before = self.is_degraded();
        match (side, ended) {
            // Nothing goes through at all.
            (_, Some(Fault::Fused | Fault::Unreachable | Fault::Password)) => {
                self.reads_fail.store(true, Ordering::Relaxed);
                self.writes_fail.store(true, Ordering::Relaxed);
            }
            (Side::Reads, ended) => self.reads_fail.store(ended.is_some(), Ordering::Relaxed),
            (Side::Writes, ended) => self.writes_fail.store(ended.is_some(), Ordering::Relaxed),
        }
        match (before, self.is_degraded(), ended) {
            (false, true, Some(fault)) => {
                tracing::warn!(store = place, %fault, "the store is degraded: this gateway goes on by itself");
            }
            (true, false, _) => tracing::info!(store = place, "the store is back"),
            _ => {}
        }
    }
}
