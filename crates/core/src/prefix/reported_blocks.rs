//! Reported KV blocks: applies the events of a worker's cache to the prefix index.
//!
//! Events name chunks and are applied one by one: the holder set of a chunk gains or loses one
//! member. The index also counts *orphans*, chunks whose parent the worker does not hold; as long
//! as the count is zero, lookups may use binary search (R3). Engines evict leaves first, so it is
//! nearly always zero; where duplicate blocks or a lost event create orphans, lookups stay right
//! and become slower.
//!
//! **Invariant:** the index holds exactly the sum of a worker's events, or its feed is marked as
//! broken.

use super::chain::PrefixKey;
use super::holders::Change;
use super::slot_allocation::{SlotId, Source};
use super::table::{EntryId, Parent};
use super::{Feed, LayerGroup, PrefixIndex};
use crate::fleet::WorkerId;

/// Maximum children of a chunk that are checked for becoming orphans; beyond that the worker's
/// lookups walk until it has been cleared.
const CHILDREN_LOOK_MAX: usize = 1_024;

/// A report about one worker's cache. Keys are ours, whatever hashes the engine names them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It holds these chunks now, each following the one before it.
    Stored {
        /// What the first one follows; `None` at the front of a prompt.
        parent: Option<PrefixKey>,
        /// The chunks.
        keys: &'a [PrefixKey],
    },
    /// It does not hold these any more.
    Removed {
        /// The chunks, in any order.
        keys: &'a [PrefixKey],
    },
    /// It holds nothing, and reports will tell when it does: a start, or a reset of its cache.
    Cleared,
    /// It stored blocks that our keys cannot express: the index is right but incomplete.
    Missed,
    /// Reports are missing and cannot be had again: whatever we believed may be wrong.
    Forgotten,
}

impl PrefixIndex {
    /// Takes in a report of `worker`, whose layers are all of one kind.
    pub fn handle(&mut self, worker: WorkerId, event: Event<'_>) {
        self.handle_group(worker, LayerGroup::FIRST, event);
    }

    /// Takes in a report of `worker` on a group of its layers. What is cleared or forgotten is so for all.
    pub fn handle_group(&mut self, worker: WorkerId, group: LayerGroup, event: Event<'_>) {
        match event {
            Event::Stored { parent, keys } => self.store(worker, group, parent, keys),
            Event::Removed { keys } => self.remove(worker, group, keys),
            Event::Cleared => {
                self.forget(worker);
                self.record(worker).feed = Feed::Complete;
                self.sweep(1);
            }
            Event::Missed => self.miss(worker),
            Event::Forgotten => {
                self.forget(worker);
                let record = self.record(worker);
                // Exact => Stale; who never reported has nothing to be stale.
                if record.feed == Feed::Complete {
                    record.feed = Feed::Broken;
                }
                self.sweep(1);
            }
        }
    }

    fn store(
        &mut self,
        worker: WorkerId,
        group: LayerGroup,
        parent: Option<PrefixKey>,
        keys: &[PrefixKey],
    ) {
        self.note_report(worker);
        self.make_room();
        let Some(slot) = self.reported_slot(worker, group) else { return self.miss(worker) };
        let first = match parent {
            None => Some(Parent::Root),
            Some(key) => self.table.find_or_insert(key, Parent::Unknown).map(Parent::Entry),
        };
        let Some(first) = first else { return self.miss(worker) };
        let mut above = first;
        for &key in keys {
            let Some(id) = self.table.find_or_insert(key, above) else {
                self.miss(worker);
                break;
            };
            self.report(slot, id);
            above = Parent::Entry(id);
        }
        if let Parent::Entry(first) = first {
            self.table.prune(first);
        }
        self.sweep(keys.len());
    }

    fn remove(&mut self, worker: WorkerId, group: LayerGroup, keys: &[PrefixKey]) {
        self.note_report(worker);
        let slot = self.record(worker).reported.get(group.index()).copied();
        let Some(slot) = slot.flatten() else { return };
        for &key in keys {
            if let Some(id) = self.table.find(key) {
                self.withdraw(slot, id);
            }
        }
        self.sweep(keys.len());
    }

    /// A first report from the middle of a worker's life: there was something before it.
    fn note_report(&mut self, worker: WorkerId) {
        let record = self.record(worker);
        if record.feed == Feed::Never {
            record.feed = Feed::Broken;
        }
    }

    /// A report that could not be kept.
    fn miss(&mut self, worker: WorkerId) {
        self.record(worker).feed = Feed::Broken;
    }

    fn reported_slot(&mut self, worker: WorkerId, group: LayerGroup) -> Option<SlotId> {
        let known = &self.record(worker).reported;
        if let Some(&Some(slot)) = known.get(group.index()) {
            return Some(slot);
        }
        let slot = self.slots.open(worker, Source::Reported)?;
        let known = &mut self.record(worker).reported;
        known.resize(known.len().max(group.index() + 1), None);
        known[group.index()] = Some(slot);
        self.note_groups(worker);
        Some(slot)
    }

    fn report(&mut self, slot: SlotId, id: EntryId) {
        let set = self.table.holders(id);
        if self.holders.contains(set, slot) {
            return;
        }
        let set = self.holders.change(set, Change { remove: None, add: Some(slot) });
        self.table.set_holders(id, set);
        let orphaned = u32::from(!self.follows(slot, id));
        let orphans = match self.slots.at(slot).orphans() {
            Some(0) => Some(orphaned),
            Some(before) => self.children_held(slot, id).map(|adopted| before + orphaned - adopted),
            None => None,
        };
        self.slots.at_mut(slot).held += 1;
        self.slots.set_orphans(slot, orphans);
    }

    fn withdraw(&mut self, slot: SlotId, id: EntryId) {
        let set = self.table.holders(id);
        if !self.holders.contains(set, slot) {
            return;
        }
        let set = self.holders.change(set, Change { remove: Some(slot), add: None });
        self.table.set_holders(id, set);
        let was_orphan = u32::from(!self.follows(slot, id));
        let orphaned = self.children_held(slot, id);
        self.table.prune(id);
        self.slots.at_mut(slot).held -= 1;
        let now = self.slots.at(slot);
        let orphans = match (now.orphans(), orphaned) {
            // Who holds nothing has no gaps, even if they could not be counted before.
            _ if now.held == 0 => Some(0),
            (Some(before), Some(orphaned)) => Some(before + orphaned - was_orphan),
            _ => None,
        };
        self.slots.set_orphans(slot, orphans);
    }

    /// Whether what comes before an entry is held too.
    fn follows(&self, slot: SlotId, id: EntryId) -> bool {
        match self.table.parent(id) {
            Parent::Root => true,
            Parent::Entry(parent) => self.holders.contains(self.table.holders(parent), slot),
            Parent::Unknown => false,
        }
    }

    /// How many of an entry's children are held; `None` if that is too much to count.
    fn children_held(&self, slot: SlotId, id: EntryId) -> Option<u32> {
        let mut held = 0;
        for (looked_at, child) in self.table.children(id).enumerate() {
            if looked_at == CHILDREN_LOOK_MAX {
                return None;
            }
            held += u32::from(self.holders.contains(self.table.holders(child), slot));
        }
        Some(held)
    }
}
