//! Prefix trie: entries in pages, linked to parent, first child and siblings.
//!
//! Entries of 28 bytes are in pages that never move; [`Places`] maps keys to them. Entries are
//! linked as a trie: parent, first child, siblings both ways.
//!
//! **Invariant:** every entry has holders or children, or is about to: an entry that loses the last
//! of both is removed, and so are its ancestors that have neither. An entry with holders knows its
//! parent.

use alloc::vec::Vec;

use super::chain::PrefixKey;
use super::holders::HolderSet;
use super::two_choice_table::Places;

/// Entries to a page.
const PAGE: usize = 4_096;
/// Keys prefetched ahead of a change.
pub(super) const WARMED_MAX: usize = 16;
/// Index of no entry.
const NONE: u32 = u32::MAX;
/// A parent that is not known yet.
const UNKNOWN: u32 = u32::MAX - 1;
/// A parent of what is no entry but a vacancy.
const VACANT: u32 = u32::MAX - 2;

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId(u32);

/// What an entry follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// Nothing: it is the first chunk of a prompt.
    Root,
    /// This entry.
    Entry(EntryId),
    /// Its children were heard of, itself not yet.
    Unknown,
}

/// What a sweep comes upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    Entry(EntryId),
    Vacancy,
    End,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The key, little end first; as bytes it leaves no gap in an entry.
    key: [u8; 8],
    parent: u32,
    child: u32,
    next: u32,
    /// The sibling before it.
    previous: u32,
    holders: HolderSet,
}

impl Entry {
    fn key(&self) -> u64 {
        u64::from_le_bytes(self.key)
    }
}

/// All entries.
#[derive(Debug)]
pub(super) struct Table {
    pages: Vec<Vec<Entry>>,
    places: Places,
    /// The first vacancy; they are linked by `next`.
    vacant: u32,
    len: usize,
    keys_max: usize,
    /// How far the sweep has come.
    cursor: usize,
}

impl Table {
    /// A table for up to `keys_max` entries, none yet.
    pub(super) fn new(keys_max: u32) -> Self {
        let keys_max = keys_max.min(VACANT) as usize;
        let places = Places::new();
        Self { pages: Vec::new(), places, vacant: NONE, len: 0, keys_max, cursor: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Entries that still fit.
    pub(super) const fn room(&self) -> usize {
        self.keys_max - self.len
    }

    pub(super) fn find(&self, key: PrefixKey) -> Option<EntryId> {
        self.places.find(key.0, |at| self.entry(at).key() == key.0).map(EntryId)
    }

    /// The same, if it stands right behind `before`, where a chunk stands that was first heard of
    /// after its parent: along most prompts all do, and then nothing has to be looked up.
    pub(super) fn find_behind(&self, key: PrefixKey, before: Parent) -> Option<EntryId> {
        let Parent::Entry(EntryId(before)) = before else { return None };
        let at = before + 1;
        let entry = self.pages.get(at as usize / PAGE)?.get(at as usize % PAGE)?;
        // A vacancy keeps its key.
        (entry.key() == key.0 && entry.parent != VACANT).then_some(EntryId(at))
    }

    /// The same, if it stands where it does when all chunks between it and `from` were heard of in a
    /// row, as those of most prompts are: one look at memory instead of two. It comes so many `chunks`
    /// further on.
    #[inline]
    pub(super) fn find_from(
        &self,
        key: PrefixKey,
        EntryId(from): EntryId,
        chunks: usize,
    ) -> Option<EntryId> {
        let at = from as usize + chunks;
        let entry = self.pages.get(at / PAGE)?.get(at % PAGE)?;
        // A vacancy keeps its key.
        let stands = entry.key() == key.0 && entry.parent != VACANT;
        stands.then(|| u32::try_from(at).ok().map(EntryId)).flatten()
    }

    /// Has what leads to these keys, or would, brought into the processor's caches. The looks do not
    /// wait for each other; those of changes do, each for the one before it.
    pub(super) fn warm(&self, keys: impl Iterator<Item = PrefixKey>) {
        for key in keys.take(WARMED_MAX) {
            self.places.touch(key.0);
        }
    }

    /// The keys of an entry and of those before it, root last.
    pub(super) fn keys_up_from(&self, id: EntryId) -> impl Iterator<Item = PrefixKey> {
        let above = |id: &EntryId| match self.entry(id.0).parent {
            NONE | UNKNOWN | VACANT => None,
            above => Some(EntryId(above)),
        };
        core::iter::successors(Some(id), above).map(|id| PrefixKey(self.entry(id.0).key()))
    }

    pub(super) fn holders(&self, id: EntryId) -> HolderSet {
        self.entry(id.0).holders
    }

    pub(super) fn set_holders(&mut self, id: EntryId, holders: HolderSet) {
        self.entry_mut(id.0).holders = holders;
    }

    pub(super) fn parent(&self, id: EntryId) -> Parent {
        match self.entry(id.0).parent {
            NONE => Parent::Root,
            UNKNOWN => Parent::Unknown,
            parent => Parent::Entry(EntryId(parent)),
        }
    }

    pub(super) fn children(&self, id: EntryId) -> impl Iterator<Item = EntryId> {
        let first = self.entry(id.0).child;
        let next = |&EntryId(at): &EntryId| Some(self.entry(at).next);
        core::iter::successors(Some(first).filter(|&at| at != NONE).map(EntryId), move |id| {
            next(id).filter(|&at| at != NONE).map(EntryId)
        })
    }

    /// The entry of `key`, made if need be; `None` when the table is full.
    ///
    /// An entry keeps the first parent it is given: a key names all that comes before it.
    pub(super) fn find_or_insert(&mut self, key: PrefixKey, parent: Parent) -> Option<EntryId> {
        if let Some(id) = self.find_behind(key, parent).or_else(|| self.find(key)) {
            if self.entry(id.0).parent == UNKNOWN {
                self.link(id, parent);
            }
            return Some(id);
        }
        if self.room() == 0 {
            return None;
        }
        let entry = Entry {
            key: key.0.to_le_bytes(),
            parent: UNKNOWN,
            child: NONE,
            next: NONE,
            previous: NONE,
            holders: HolderSet::NOBODY,
        };
        let at = self.place(entry);
        let pages = &self.pages;
        if !self.places.insert(key.0, at, |at| entry_in(pages, at).key()) {
            self.put_back(at);
            return None;
        }
        self.len += 1;
        self.link(EntryId(at), parent);
        Some(EntryId(at))
    }

    /// Removes an entry, and then its ancestors, as long as nobody holds them and nothing follows.
    pub(super) fn prune(&mut self, id: EntryId) {
        let mut at = id.0;
        loop {
            let entry = self.entry(at);
            if entry.holders != HolderSet::NOBODY || entry.child != NONE {
                return;
            }
            let parent = entry.parent;
            self.unlink(at);
            self.vacate(at);
            if parent == NONE || parent == UNKNOWN {
                return;
            }
            at = parent;
        }
    }

    /// Starts a sweep over all entries there are.
    pub(super) fn begin_sweep(&mut self) {
        self.cursor = 0;
    }

    /// The next place of the sweep.
    pub(super) fn sweep_next(&mut self) -> Swept {
        let page = self.pages.get(self.cursor / PAGE);
        let Some(entry) = page.and_then(|page| page.get(self.cursor % PAGE)) else {
            return Swept::End;
        };
        let id = EntryId(u32::try_from(self.cursor).expect("places are four bytes long"));
        let swept = if entry.parent == VACANT { Swept::Vacancy } else { Swept::Entry(id) };
        self.cursor += 1;
        swept
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.places.bytes()
            + self.pages.len() * PAGE * size_of::<Entry>()
            + self.pages.capacity() * size_of::<Vec<Entry>>()
    }

    fn entry(&self, at: u32) -> &Entry {
        entry_in(&self.pages, at)
    }

    fn entry_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.pages[at as usize / PAGE][at as usize % PAGE]
    }

    fn place(&mut self, entry: Entry) -> u32 {
        if self.vacant != NONE {
            let at = self.vacant;
            self.vacant = self.entry(at).next;
            *self.entry_mut(at) = entry;
            return at;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let before = (self.pages.len() - 1) * PAGE;
        let page = self.pages.last_mut().expect("a page was just seen to have room");
        page.push(entry);
        u32::try_from(before + page.len() - 1).expect("places are four bytes long")
    }

    fn vacate(&mut self, at: u32) {
        self.places.remove(self.entry(at).key(), at);
        self.put_back(at);
        self.len -= 1;
    }

    fn put_back(&mut self, at: u32) {
        let next = self.vacant;
        let entry = self.entry_mut(at);
        entry.parent = VACANT;
        entry.next = next;
        self.vacant = at;
    }

    /// Sets the parent of an entry that had none yet.
    fn link(&mut self, id: EntryId, parent: Parent) {
        let parent = match parent {
            Parent::Unknown => return,
            // Nothing follows itself; only a collision can say so, and it starts a prompt of its own.
            Parent::Entry(parent) if parent == id => NONE,
            Parent::Root => NONE,
            Parent::Entry(parent) => parent.0,
        };
        self.entry_mut(id.0).parent = parent;
        if parent == NONE {
            return;
        }
        let first = core::mem::replace(&mut self.entry_mut(parent).child, id.0);
        self.entry_mut(id.0).next = first;
        if first != NONE {
            self.entry_mut(first).previous = id.0;
        }
    }

    fn unlink(&mut self, at: u32) {
        let Entry { parent, next, previous, .. } = *self.entry(at);
        if next != NONE {
            self.entry_mut(next).previous = previous;
        }
        if previous != NONE {
            self.entry_mut(previous).next = next;
        } else if parent != NONE && parent != UNKNOWN {
            self.entry_mut(parent).child = next;
        }
    }
}

fn entry_in(pages: &[Vec<Entry>], at: u32) -> &Entry {
    &pages[at as usize / PAGE][at as usize % PAGE]
}
