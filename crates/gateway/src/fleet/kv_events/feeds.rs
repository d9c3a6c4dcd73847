//! KV event feeds of one worker: one for each group of its layers.
//!
//! Models with full attention and sliding windows have several groups, each with a cache of its own. A group
//! may follow a block that only another still holds, so a parent is looked for in all of them.
//!
//! **Invariant:** events of a batch are applied in order, whatever groups they are of; what is cleared or
//! forgotten is so for all groups.

use std::collections::BTreeMap;

use overdraft_core::prefix::{
    BlockEvent, BlockSizeMismatch, Chunks, Event, EventFeed, LayerGroup, Skipped,
};
use overdraft_units::BlockSize;
use overdraft_wire::kv_events::{Batch, KvEvent};

use super::apply::{medium, name, names, with_stored};

/// Turns one worker's batches into events of the prefix index.
#[derive(Debug)]
pub struct Feeds {
    block_size: BlockSize,
    capacity: Option<Chunks>,
    by_group: BTreeMap<LayerGroup, EventFeed>,
    /// Blocks that were not passed on since they were last taken.
    skipped: Skipped,
}

impl Feeds {
    /// Feeds of a worker of which nothing is known, for an index whose chunks have `block_size` tokens.
    pub fn new(block_size: BlockSize) -> Self {
        let skipped = Skipped::default();
        Self { block_size, capacity: None, by_group: BTreeMap::new(), skipped }
    }

    /// Tokens to a chunk of the index.
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Whether no block is known.
    pub fn is_empty(&self) -> bool {
        self.by_group.values().all(EventFeed::is_empty)
    }

    /// Blocks that were reported and not passed on since this was last asked.
    pub fn take_skipped(&mut self) -> Skipped {
        std::mem::take(&mut self.skipped)
    }

    /// Says how many blocks the worker has, which bounds what is remembered.
    pub fn set_capacity(&mut self, blocks: Chunks) {
        self.capacity = Some(blocks);
        self.by_group.values_mut().for_each(|feed| feed.set_capacity(blocks));
    }

    /// The worker began anew, and reports all from here on.
    pub fn restart(&mut self, mut tell: impl FnMut(LayerGroup, Event<'_>)) {
        self.by_group.clear();
        tell(LayerGroup::FIRST, Event::Cleared);
    }

    /// Reports are missing and cannot be had again.
    pub fn forget(&mut self, mut tell: impl FnMut(LayerGroup, Event<'_>)) {
        self.by_group.clear();
        tell(LayerGroup::FIRST, Event::Forgotten);
    }

    /// Takes in a batch and tells the index what it means. The first block size that does not fit comes
    /// back.
    pub fn apply(
        &mut self,
        batch: &Batch,
        mut tell: impl FnMut(LayerGroup, Event<'_>),
    ) -> Option<BlockSizeMismatch> {
        let mut mismatch = None;
        for event in &batch.events {
            let found = match event {
                KvEvent::Stored(stored) => with_stored(stored, |block_event| {
                    let Some(group) = group(stored.group) else {
                        tell(LayerGroup::FIRST, Event::Missed);
                        self.skipped.layer_group += stored.hashes.len() as u64;
                        return None;
                    };
                    let parent = stored.parent.as_ref().map(name);
                    let known = parent.and_then(|parent| {
                        self.by_group.values().find_map(|feed| feed.key_of(parent))
                    });
                    let feed = self.feed(group);
                    let before = feed.skipped();
                    let found = feed.handle_after(&block_event, known, |event| tell(group, event));
                    let skipped = feed.skipped().since(before);
                    self.skipped += skipped;
                    found
                }),
                KvEvent::Removed(removed) => {
                    let names = &*names(&removed.hashes);
                    let medium = medium(removed.medium.as_deref());
                    let group = group(removed.group);
                    if let Some((group, feed)) =
                        group.and_then(|it| Some((it, self.by_group.get_mut(&it)?)))
                    {
                        let event = BlockEvent::Removed { names, medium };
                        feed.handle(&event, |event| tell(group, event));
                    }
                    None
                }
                KvEvent::Cleared => {
                    self.restart(&mut tell);
                    None
                }
                KvEvent::Unknown => None,
            };
            mismatch = mismatch.or(found);
        }
        mismatch
    }

    fn feed(&mut self, group: LayerGroup) -> &mut EventFeed {
        self.by_group.entry(group).or_insert_with(|| {
            let mut feed = EventFeed::new(self.block_size);
            if let Some(blocks) = self.capacity {
                feed.set_capacity(blocks);
            }
            feed
        })
    }
}

/// The group of an event; engines that do not say have one.
fn group(number: Option<u32>) -> Option<LayerGroup> {
    LayerGroup::new(number.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use overdraft_core::fleet::Fleet;
    use overdraft_core::prefix::{Chunking, Knowledge, PrefixChain, PrefixIndex, PrefixLimits};
    use overdraft_units::{CacheSalt, TokenId};
    use overdraft_wire::kv_events::{EngineHash, Removed, Stored};

    use super::*;

    fn stored(group: u32, parent: Option<u64>, blocks: std::ops::Range<u32>) -> KvEvent {
        KvEvent::Stored(Stored {
            hashes: blocks
                .clone()
                .map(|block| EngineHash::Number(u64::from(block) + 100))
                .collect(),
            parent: parent.map(EngineHash::Number),
            tokens: (blocks.start * 16..blocks.end * 16).map(TokenId).collect(),
            block_size: 16,
            group: Some(group),
            ..Stored::default()
        })
    }

    #[test]
    fn groups_follow_each_others_blocks_and_are_counted_together() {
        let size = BlockSize::new(16).unwrap();
        let one = Fleet::new().join(0).unwrap();
        let (mut index, mut feeds) = (PrefixIndex::new(PrefixLimits::default()), Feeds::new(size));
        let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Tokens(size));
        chain.push_tokens(&(0..8 * 16).map(TokenId).collect::<Vec<_>>());
        feeds.restart(|group, event| index.handle_group(one, group, event));
        let mut apply = |events: Vec<KvEvent>, expected: u32| {
            let batch = Batch { at_seconds: 0.0, events, rank: None };
            let tell = |group, event: Event<'_>| index.handle_group(one, group, event);
            assert_eq!(feeds.apply(&batch, tell), None);
            assert_eq!(index.reported_leading(one, chain.keys()).get(), expected);
            assert_eq!(index.knowledge(one), Knowledge::Exact, "nothing was missed");
        };
        apply(vec![stored(0, None, 0..8)], 8);
        // The window keeps the last two, which follow a block that it never had.
        apply(vec![stored(1, Some(105), 6..8)], 8);
        let removed = |group, hash| {
            let hashes = vec![EngineHash::Number(hash)];
            KvEvent::Removed(Removed { hashes, medium: None, group: Some(group) })
        };
        apply(vec![removed(1, 107)], 7);
        apply(vec![removed(0, 106)], 0);
        apply(vec![KvEvent::Cleared, stored(0, None, 0..3)], 3);
    }

    #[test]
    fn skipped_blocks_are_counted_by_reason_and_through_what_clears_the_feeds() {
        let size = BlockSize::new(16).unwrap();
        let mut feeds = Feeds::new(size);
        let mut apply = |events: Vec<KvEvent>, expected: Skipped| {
            let batch = Batch { at_seconds: 0.0, events, rank: None };
            assert_eq!(feeds.apply(&batch, |_, _| {}), None);
            assert_eq!(feeds.take_skipped(), expected);
        };
        let none = Skipped::default();
        apply(vec![stored(0, None, 0..2)], none);
        // Nobody has told of the block before these, and no group has such a number.
        let orphans = vec![stored(0, Some(7), 3..5), stored(99, None, 0..3), KvEvent::Cleared];
        apply(orphans, Skipped { unknown_parent: 2, layer_group: 3, ..none });
        apply(vec![stored(1, Some(7), 3..4)], Skipped { unknown_parent: 1, ..none });
        apply(vec![stored(0, None, 0..2)], none);
    }
}
