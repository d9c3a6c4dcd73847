//! Interned worker sets: which workers hold a chunk, as a four-byte id.
//!
//! A set of slots is stored once and named by a [`HolderSet`]; the chunks of one prefix nearly
//! always share their set. A set with one member is encoded in its id and takes no memory, and most
//! chunks of most fleets have such a set. Sets are reference-counted by the entries that name them.
//!
//! **Invariant:** equal sets have equal ids, so comparing two chunks' holders is comparing two
//! numbers; the members of a set are sorted.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashTable;

use super::slot_allocation::{SLOTS_MAX, SlotId};

/// The name of an interned set of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HolderSet(u32);

impl HolderSet {
    /// The empty set.
    pub(super) const NOBODY: Self = Self(u32::MAX);

    /// Names below it are those of slots.
    const FIRST_SHARED: u32 = SLOTS_MAX;

    /// The set of one.
    pub(super) const fn one(slot: SlotId) -> Self {
        Self(slot.0 as u32)
    }
}

#[derive(Debug)]
struct Shared {
    members: Box<[SlotId]>,
    /// Entries that name it; zero for a vacancy.
    references: u32,
}

/// All sets with more than one member.
#[derive(Debug, Default)]
pub(super) struct Holders {
    sets: Vec<Shared>,
    vacant: Vec<u32>,
    by_members: HashTable<u32>,
    member_bytes: usize,
    /// The last change made: runs of chunks mostly change alike.
    memo: Option<(HolderSet, Change, HolderSet)>,
}

/// One change of a set: someone goes, someone comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) remove: Option<SlotId>,
    pub(super) add: Option<SlotId>,
}

impl Holders {
    /// The member of `set` at `place`, in ascending order.
    pub(super) fn member(&self, set: HolderSet, place: usize) -> Option<SlotId> {
        match set.into() {
            Form::Nobody => None,
            Form::One(slot) => (place == 0).then_some(slot),
            Form::Shared(index) => self.sets[index].members.get(place).copied(),
        }
    }

    /// Who is in `set`, ascending.
    pub(super) fn members(&self, set: HolderSet) -> impl Iterator<Item = SlotId> {
        let (one, more): (_, &[SlotId]) = match set.into() {
            Form::Nobody => (None, &[]),
            Form::One(slot) => (Some(slot), &[]),
            Form::Shared(index) => (None, &self.sets[index].members),
        };
        one.into_iter().chain(more.iter().copied())
    }

    /// Whether `slot` is in `set`.
    pub(super) fn contains(&self, set: HolderSet, slot: SlotId) -> bool {
        match set.into() {
            Form::Nobody => false,
            Form::One(only) => only == slot,
            Form::Shared(index) => self.sets[index].members.binary_search(&slot).is_ok(),
        }
    }

    /// Moves one reference from `set` to the set that differs by `change`.
    #[inline]
    pub(super) fn change(&mut self, set: HolderSet, change: Change) -> HolderSet {
        // Most chunks have one holder at most, before and after, and those sets are not counted.
        match (set.into(), change) {
            (Form::Nobody, Change { remove: None, add: Some(come) }) => HolderSet::one(come),
            (Form::One(one), Change { remove: Some(gone), add }) if one == gone => {
                add.map_or(HolderSet::NOBODY, HolderSet::one)
            }
            _ => self.change_shared(set, change),
        }
    }

    fn change_shared(&mut self, set: HolderSet, change: Change) -> HolderSet {
        if let Some((from, done, to)) = self.memo
            && from == set
            && done == change
        {
            self.hold(to);
            self.release(set);
            return to;
        }
        let mut members = match set.into() {
            Form::Nobody => Vec::new(),
            Form::One(slot) => vec![slot],
            Form::Shared(index) => self.sets[index].members.to_vec(),
        };
        if let Some(gone) = change.remove
            && let Ok(at) = members.binary_search(&gone)
        {
            members.remove(at);
        }
        if let Some(come) = change.add
            && let Err(at) = members.binary_search(&come)
        {
            members.insert(at, come);
        }
        let to = self.intern(&members);
        self.hold(to);
        self.release(set);
        if self.is_live(set) {
            self.memo = Some((set, change, to));
        }
        to
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.sets.capacity() * size_of::<Shared>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.by_members.allocation_size()
            + self.member_bytes
    }

    fn intern(&mut self, members: &[SlotId]) -> HolderSet {
        match members {
            [] => return HolderSet::NOBODY,
            [slot] => return HolderSet::one(*slot),
            _ => {}
        }
        let hash = hash(members);
        let same = |index: &u32| *self.sets[*index as usize].members == *members;
        if let Some(&index) = self.by_members.find(hash, same) {
            return HolderSet(HolderSet::FIRST_SHARED + index);
        }
        self.member_bytes += size_of_val(members);
        let shared = Shared { members: members.into(), references: 0 };
        let index = if let Some(index) = self.vacant.pop() {
            self.sets[index as usize] = shared;
            index
        } else {
            self.sets.push(shared);
            u32::try_from(self.sets.len() - 1).expect("there are fewer sets than entries")
        };
        let sets = &self.sets;
        self.by_members
            .insert_unique(hash, index, |&index| self::hash(&sets[index as usize].members));
        HolderSet(HolderSet::FIRST_SHARED + index)
    }

    fn hold(&mut self, set: HolderSet) {
        if let Form::Shared(index) = set.into() {
            self.sets[index].references += 1;
        }
    }

    fn release(&mut self, set: HolderSet) {
        let Form::Shared(index) = set.into() else { return };
        let shared = &mut self.sets[index];
        shared.references -= 1;
        if shared.references > 0 {
            return;
        }
        let members = core::mem::take(&mut shared.members);
        self.member_bytes -= size_of_val(&*members);
        let name = set.0 - HolderSet::FIRST_SHARED;
        if let Ok(entry) = self.by_members.find_entry(hash(&members), |&index| index == name) {
            entry.remove();
        }
        self.vacant.push(name);
        self.memo = self.memo.filter(|&(from, _, to)| from != set && to != set);
    }

    fn is_live(&self, set: HolderSet) -> bool {
        match set.into() {
            Form::Shared(index) => self.sets[index].references > 0,
            Form::One(_) | Form::Nobody => true,
        }
    }
}

/// A set's name taken apart.
enum Form {
    Nobody,
    One(SlotId),
    Shared(usize),
}

impl From<HolderSet> for Form {
    fn from(set: HolderSet) -> Self {
        match u16::try_from(set.0) {
            Ok(slot) => Self::One(SlotId(slot)),
            Err(_) if set == HolderSet::NOBODY => Self::Nobody,
            Err(_) => Self::Shared((set.0 - HolderSet::FIRST_SHARED) as usize),
        }
    }
}

fn hash(members: &[SlotId]) -> u64 {
    let mut state = members.len() as u64;
    for member in members {
        state = (state.rotate_left(5) ^ u64::from(member.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    // The table picks buckets by the low bits and tags by the high ones.
    state ^ (state >> 32)
}
