//! Ledger correction: reconciles a worker's reported cache use with the gateway's own ledger.
//!
//! What it holds beyond all that we may have put there is others': counted at once when it grows, and
//! forgotten by quarters. Where it holds less, that says nothing: what waits there, or is still being
//! computed, is on our books and not yet in its cache, and prefixes that requests share are counted
//! once by their blocks (`pinned_prefixes.rs`).

/// One part in so many of what others do not hold any more is believed each time.
const SLOWNESS: u64 = 4;

/// What was learnt of a worker's cache from its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Correction {
    /// Tokens that others hold.
    foreign: u64,
}

impl Correction {
    pub(crate) const fn new() -> Self {
        Self { foreign: 0 }
    }

    /// Tokens that others hold.
    pub(crate) const fn foreign(self) -> u64 {
        self.foreign
    }

    /// It holds `reported` tokens for requests, and `booked` are ours at most.
    pub(crate) fn note(&mut self, reported: u64, booked: u64) {
        let excess = reported.saturating_sub(booked);
        self.foreign = if self.foreign < excess {
            excess
        } else {
            excess + (self.foreign - excess) * (SLOWNESS - 1) / SLOWNESS
        };
    }
}
