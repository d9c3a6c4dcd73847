//! Incremental garbage collection: clears closed slots from the prefix index step by step.
//!
//! Closing a slot takes constant time; the slot is still in the holder sets of entries. Every
//! change clears a few more entries, at a pace that keeps the garbage small (R6). A generation
//! records the tails of the chains that entered it, and its entries lie between those and their
//! roots, so only these are visited. There is no list of the entries that a worker reported;
//! forgetting those is rare, and a sweep over all entries clears them.
//!
//! **Invariant:** the work done at a change is bounded: [`CLEAR_STEP`] entries per chunk changed, and
//! [`SWEEP_STEP`] while reports are being forgotten.

use alloc::vec::Vec;

use super::PrefixIndex;
use super::holders::{Change, HolderSet};
use super::slot_allocation::SlotId;
use super::table::{EntryId, Parent, Swept, WARMED_MAX};

/// Entries of ended generations visited per changed chunk: each change adds at most one, so the
/// backlog shrinks.
pub const CLEAR_STEP: usize = 4;

/// Entries swept per changed chunk, while there is something to sweep.
pub const SWEEP_STEP: usize = 64;

/// A tick sweeps as much as this many changes.
pub(super) const TICK_CHANGES: usize = 1_024;

/// What a generation left behind.
#[derive(Debug)]
pub(super) struct Remains {
    slot: SlotId,
    tails: Vec<EntryId>,
    /// On the way from a tail to its root.
    at: Option<EntryId>,
}

impl Remains {
    /// Bytes of memory held elsewhere.
    pub(super) const fn bytes(&self) -> usize {
        self.tails.capacity() * size_of::<EntryId>()
    }
}

impl PrefixIndex {
    /// Forgets a generation; it is cleared in time.
    pub(super) fn abandon(&mut self, slot: SlotId, tails: Vec<EntryId>) {
        if self.slots.begin_clearing(slot) {
            self.remains.push_back(Remains { slot, tails, at: None });
        }
    }

    /// Goes on clearing, as far as `changes` changes pay for.
    pub(super) fn sweep(&mut self, changes: usize) {
        self.clear_remains(CLEAR_STEP * changes);
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

    /// Clears what generations left behind, looking at so many entries.
    fn clear_remains(&mut self, looks: usize) {
        let Some(mut first) = self.remains.pop_front() else { return };
        for look in 0..looks {
            let Some(id) = first.at.or_else(|| first.tails.pop()) else {
                self.slots.cleared(first.slot);
                let Some(next) = self.remains.pop_front() else { return };
                first = next;
                continue;
            };
            if look.is_multiple_of(WARMED_MAX) {
                self.table.warm(self.table.keys_up_from(id));
            }
            first.at = self.clear_from(id, first.slot);
        }
        self.remains.push_front(first);
    }

    /// Takes a slot out of an entry's holders; what comes before that and may stand in it too.
    ///
    /// A worker that has left the generation for a newer one has taken all before it along. A place that
    /// another entry has taken since does not name the slot, for nobody enters what has ended.
    fn clear_from(&mut self, id: EntryId, slot: SlotId) -> Option<EntryId> {
        let set = self.table.holders(id);
        if !self.holders.contains(set, slot) {
            return None;
        }
        let above = match self.table.parent(id) {
            Parent::Entry(above) => Some(above),
            Parent::Root | Parent::Unknown => None,
        };
        let set = self.holders.change(set, Change { remove: Some(slot), add: None });
        self.table.set_holders(id, set);
        self.slots.clear_one(slot);
        if set == HolderSet::NOBODY {
            self.table.prune(id);
        }
        above
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
