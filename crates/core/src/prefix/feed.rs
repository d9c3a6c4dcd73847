//! KV event translation: maps an engine's block hashes to our prefix keys.
//!
//! Engines name blocks by hashes of their own, which mean nothing elsewhere, and report the tokens
//! of a block only once, when they store it. An [`EventFeed`] hashes the tokens again with our
//! chain and remembers the key of each name as long as the block is held. The rules are in
//! `docs/design/kv-events.md`.
//!
//! **Invariant:** the events it emits add up exactly to the engine's reports, or it emits
//! [`Event::Missed`]; it remembers at most a set number of names.

use alloc::vec::Vec;
use core::ops::AddAssign;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use overdraft_units::{BlockSize, CacheSalt, TokenId};

use super::Chunks;
use super::chain::{Chunking, PrefixChain, PrefixKey};
use super::reported_blocks::Event;

/// Maximum names remembered while the worker's number of blocks is unknown: 4 million tokens in
/// blocks of 16, in about 10 MB.
pub const NAMES_MAX_DEFAULT: usize = 1 << 18;

/// Names remembered per block of the worker's cache: engines may hold a page twice, and tell of the
/// new before the old is gone.
const NAMES_PER_BLOCK: usize = 2;

/// An engine's name for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockName(pub u64);

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// In the memory of the device that computes.
    #[default]
    Device,
    /// In memory or on a disk, from where it would have to be fetched.
    Elsewhere,
}

/// A report of an engine about its cache, in its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEvent<'a> {
    /// It holds these blocks now.
    Stored(StoredBlocks<'a>),
    /// It does not hold these any more.
    Removed {
        /// The blocks.
        names: &'a [BlockName],
        /// Where from.
        medium: Medium,
    },
}

/// Blocks that were stored, each following the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlocks<'a> {
    /// What the first one follows; `None` at the front of a prompt.
    pub parent: Option<BlockName>,
    /// The blocks.
    pub names: &'a [BlockName],
    /// The tokens of all of them.
    pub tokens: &'a [TokenId],
    /// Tokens to a block.
    pub block_size: u32,
    /// Where to.
    pub medium: Medium,
    /// Whose prompt it is; counts at its front only.
    pub salt: CacheSalt,
    /// What else each block depends on, as [`digest_of`](super::digest_of) it; blocks past the end
    /// depend on nothing else.
    pub extras: &'a [u64],
}

/// The worker's blocks are of another size than the index's chunks. Told once: the caller that feeds the
/// index then cuts prompts for this worker's model by `found`, and starts over with a new feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizeMismatch {
    /// Tokens to a block of the worker.
    pub found: u32,
    /// Tokens to a chunk of the index.
    pub expected: BlockSize,
}

/// Blocks that were reported and not passed on, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// They follow a block that we do not know: we joined later, or lost it.
    pub unknown_parent: u64,
    /// They are of another size.
    pub block_size: u64,
    /// More blocks were named than tokens were told for.
    pub tokens_missing: u64,
    /// No more names fit.
    pub full: u64,
    /// They do not lie on the device.
    pub elsewhere: u64,
    /// They are of a group of layers beyond those that are told apart. A feed has one group, so this is
    /// counted where the groups are.
    pub layer_group: u64,
}

impl Skipped {
    /// How many, by reason as metrics call it.
    pub const fn by_reason(self) -> [(&'static str, u64); 6] {
        [
            ("unknown_parent", self.unknown_parent),
            ("block_size", self.block_size),
            ("tokens_missing", self.tokens_missing),
            ("full", self.full),
            ("elsewhere", self.elsewhere),
            ("layer_group", self.layer_group),
        ]
    }

    /// Those that came after `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            unknown_parent: self.unknown_parent - before.unknown_parent,
            block_size: self.block_size - before.block_size,
            tokens_missing: self.tokens_missing - before.tokens_missing,
            full: self.full - before.full,
            elsewhere: self.elsewhere - before.elsewhere,
            layer_group: self.layer_group - before.layer_group,
        }
    }
}

impl AddAssign for Skipped {
    fn add_assign(&mut self, other: Self) {
        self.unknown_parent += other.unknown_parent;
        self.block_size += other.block_size;
        self.tokens_missing += other.tokens_missing;
        self.full += other.full;
        self.elsewhere += other.elsewhere;
        self.layer_group += other.layer_group;
    }
}

/// Turns one worker's reports into events of the index.
#[derive(Debug)]
pub struct EventFeed {
    block_size: BlockSize,
    names_max: usize,
    names: HashTable<Named>,
    /// For hashing; empty in between.
    chain: PrefixChain,
    /// Keys on their way out; empty in between.
    gone: Vec<PrefixKey>,
    skipped: Skipped,
}

/// A block that the worker holds.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: BlockName,
    key: PrefixKey,
    /// How often it is held: as two pages of equal content, or in several groups of layers.
    copies: u32,
}

impl EventFeed {
    /// A feed of a worker of which nothing is known, for an index whose chunks have `block_size`
    /// tokens.
    pub fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            names_max: NAMES_MAX_DEFAULT,
            names: HashTable::new(),
            chain: PrefixChain::new(CacheSalt(0), Chunking::Tokens(block_size)),
            gone: Vec::new(),
            skipped: Skipped::default(),
        }
    }

    /// Says how many blocks the worker has, which bounds what is remembered from now on.
    pub fn set_capacity(&mut self, blocks: Chunks) {
        self.names_max = (blocks.get() as usize).saturating_mul(NAMES_PER_BLOCK).max(1);
    }

    /// Takes in a report and tells the index what it means.
    pub fn handle(
        &mut self,
        event: &BlockEvent<'_>,
        tell: impl FnMut(Event<'_>),
    ) -> Option<BlockSizeMismatch> {
        self.handle_after(event, None, tell)
    }

    /// The same where the key of what stored blocks follow may be known elsewhere: in another group of layers.
    pub fn handle_after(
        &mut self,
        event: &BlockEvent<'_>,
        known: Option<PrefixKey>,
        mut tell: impl FnMut(Event<'_>),
    ) -> Option<BlockSizeMismatch> {
        match event {
            BlockEvent::Stored(stored) => return self.store(stored, known, &mut tell),
            BlockEvent::Removed { names, medium: Medium::Device } => self.remove(names, &mut tell),
            // What lies elsewhere was never passed on.
            BlockEvent::Removed { medium: Medium::Elsewhere, .. } => {}
        }
        None
    }

    /// The worker began anew or holds nothing any more, and reports all from here on.
    pub fn restart(&mut self, mut tell: impl FnMut(Event<'_>)) {
        self.names.clear();
        tell(Event::Cleared);
    }

    /// Reports are missing and cannot be had again.
    pub fn forget(&mut self, mut tell: impl FnMut(Event<'_>)) {
        self.names.clear();
        tell(Event::Forgotten);
    }

    /// Tokens to a chunk of the index that it feeds.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Names remembered.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether no name is remembered.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Blocks that were not passed on so far.
    pub const fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.names.allocation_size()
            + self.chain.bytes()
            + self.gone.capacity() * size_of::<PrefixKey>()
    }

    fn store(
        &mut self,
        stored: &StoredBlocks<'_>,
        known: Option<PrefixKey>,
        tell: &mut impl FnMut(Event<'_>),
    ) -> Option<BlockSizeMismatch> {
        let blocks = stored.names.len() as u64;
        // Fetching it is cheaper than computing it, but it is not there now: a request sent there
        // for its sake would wait for the copy. It does not count as held.
        if stored.medium == Medium::Elsewhere {
            self.skipped.elsewhere += blocks;
            return None;
        }
        if stored.block_size != self.block_size.get() {
            let first = self.skipped.block_size == 0;
            self.skipped.block_size += blocks.max(1);
            tell(Event::Missed);
            let expected = self.block_size;
            return first.then_some(BlockSizeMismatch { found: stored.block_size, expected });
        }
        let parent = match stored.parent.map(|parent| self.key_of(parent).or(known)) {
            None => None,
            Some(Some(key)) => Some(key),
            Some(None) => {
                self.skipped.unknown_parent += blocks;
                tell(Event::Missed);
                return None;
            }
        };
        let taken = self.take(stored, parent, tell);
        if taken > 0 {
            tell(Event::Stored { parent, keys: &self.chain.keys()[..taken] });
        }
        if taken < stored.names.len() {
            tell(Event::Missed);
        }
        None
    }

    /// Hashes the blocks and remembers their names; how many of them.
    fn take(
        &mut self,
        stored: &StoredBlocks<'_>,
        parent: Option<PrefixKey>,
        tell: &mut impl FnMut(Event<'_>),
    ) -> usize {
        match parent {
            Some(key) => self.chain.go_on_after(key),
            None => self.chain.start_over(stored.salt, Chunking::Tokens(self.block_size)),
        }
        let pages = stored.tokens.chunks_exact(self.block_size.get() as usize);
        let untold = stored.names.len().saturating_sub(pages.len());
        self.skipped.tokens_missing += untold as u64;
        for (place, (&name, page)) in stored.names.iter().zip(pages).enumerate() {
            let extra = stored.extras.get(place).copied().unwrap_or(0);
            if extra != 0 {
                self.chain.depend_on(extra);
            }
            self.chain.push_tokens(page);
            let key = self.chain.keys()[place];
            if !self.remember(name, key, tell) {
                self.skipped.full += (stored.names.len() - untold - place) as u64;
                return place;
            }
        }
        stored.names.len() - untold
    }

    /// Counts a block that is held once more; whether there was room for its name.
    fn remember(
        &mut self,
        name: BlockName,
        key: PrefixKey,
        tell: &mut impl FnMut(Event<'_>),
    ) -> bool {
        let is_full = self.names.len() >= self.names_max;
        let same = |named: &Named| named.name == name;
        match self.names.entry(spread(name), same, |named| spread(named.name)) {
            Entry::Occupied(mut entry) => {
                let named = entry.get_mut();
                if named.key == key {
                    named.copies = named.copies.saturating_add(1);
                } else {
                    // The engine gave the name to something else without saying so.
                    tell(Event::Removed { keys: &[named.key] });
                    *named = Named { name, key, copies: 1 };
                }
                true
            }
            Entry::Vacant(_) if is_full => false,
            Entry::Vacant(entry) => {
                entry.insert(Named { name, key, copies: 1 });
                true
            }
        }
    }

    fn remove(&mut self, names: &[BlockName], tell: &mut impl FnMut(Event<'_>)) {
        self.gone.clear();
        for &name in names {
            let Ok(mut entry) = self.names.find_entry(spread(name), |named| named.name == name)
            else {
                // Stored before we joined, or skipped.
                continue;
            };
            entry.get_mut().copies -= 1;
            if entry.get().copies == 0 {
                self.gone.push(entry.remove().0.key);
            }
        }
        if !self.gone.is_empty() {
            tell(Event::Removed { keys: &self.gone });
        }
    }

    /// Our key of a block that is held.
    pub fn key_of(&self, name: BlockName) -> Option<PrefixKey> {
        self.names.find(spread(name), |named| named.name == name).map(|named| named.key)
    }
}

/// Engines' names are hashes mostly, but some count; the table wants all bits to matter.
const fn spread(name: BlockName) -> u64 {
    let mixed = (name.0 ^ name.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
