//! How is what was forgotten cleared, without anyone waiting for it?
//!
//! Forgetting closes a slot, which takes no time; the slot still stands in the holder sets of
//! entries. Every change clears a few entries more, at a pace that keeps what is closed but not
//! cleared below a thirtieth of the index or so (R6).
//!
//! **Invariant:** the work done at a change is bounded by [`SWEEP_STEP`] entries per chunk changed.

use super::PrefixIndex;
use super::holders::{Change, HolderSet};
use super::table::{EntryId, Swept};

/// Entries looked at per chunk changed.
pub const SWEEP_STEP: usize = 64;

/// A tick sweeps like so many changes.
pub(super) const TICK_CHANGES: usize = 1_024;

impl PrefixIndex {
    /// Goes on clearing, as far as `changes` changes pay for.
    pub(super) fn sweep(&mut self, changes: usize) {
        if !self.slots.is_sweeping() {
            if !self.slots.begin_sweep() {
                return;
            }
            self.table.begin_sweep();
        }
        for _ in 0..SWEEP_STEP * changes {
            match self.table.sweep_next() {
                Swept::Entry(id) => self.clear(id),
                Swept::Vacancy => {}
                Swept::End => return self.slots.end_sweep(),
            }
        }
    }

    /// Takes closed slots out of an entry's holders.
    fn clear(&mut self, id: EntryId) {
        let before = self.table.holders(id);
        let mut set = before;
        let mut place = 0;
        while let Some(slot) = self.holders.member(set, place) {
            if self.slots.at(slot).is_swept() {
                set = self.holders.change(set, Change { remove: Some(slot), add: None });
            } else {
                place += 1;
            }
        }
        if set == before {
            return;
        }
        self.table.set_holders(id, set);
        if set == HolderSet::NOBODY {
            self.table.prune(id);
        }
    }
}
