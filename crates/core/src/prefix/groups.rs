//! Layer groups: prefixes of models whose layers keep different parts of a prompt.
//!
//! Some models have layers with full attention, which need all of a prefix, and layers with a sliding window or
//! a recurrent state, which need only its end. Engines keep a cache for each such *group*, report each, and
//! reuse a prefix up to a place where every group has what it needs: that is a block that all groups hold, for
//! what a group evicts first is what lies furthest from the end.
//!
//! **Invariant:** a worker with one group costs what it did; groups beyond [`GROUPS_MAX`] are not kept.

use super::chain::PrefixKey;
use super::slot_allocation::SlotId;
use super::{Chunks, PrefixIndex, Record};
use crate::fleet::WorkerId;

/// Groups of layers that are told apart, at most.
pub const GROUPS_MAX: u8 = 16;

/// A group of layers with a cache of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayerGroup(u8);

impl LayerGroup {
    /// The only one of most engines.
    pub const FIRST: Self = Self(0);

    /// The group of this number, if there may be so many.
    pub fn new(number: u32) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number < GROUPS_MAX).map(Self)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl PrefixIndex {
    /// Chunks that the group which holds the most of them holds.
    pub(super) fn held_of(&self, record: &Record) -> Chunks {
        let held = record.reported.iter().flatten().map(|slot| self.slots.at(*slot).held);
        Chunks(held.max().unwrap_or(0))
    }

    /// Takes note of which workers have several groups.
    pub(super) fn note_groups(&mut self, worker: WorkerId) {
        let groups = self.record(worker).reported.clone();
        if groups.iter().flatten().count() < 2 {
            return;
        }
        groups.into_iter().flatten().for_each(|slot| self.slots.make_grouped(slot));
        if !self.grouped.contains(&worker) {
            self.grouped.push(worker);
        }
    }

    /// Leading chunks of `chain` that `worker` reported and can reuse, whatever was routed there.
    pub fn reported_leading(&self, worker: WorkerId, chain: &[PrefixKey]) -> Chunks {
        let Some(record) = self.workers.get(worker.index()) else { return Chunks::ZERO };
        let groups = || record.reported.iter().flatten().copied();
        let longest = groups().map(|slot| self.leading_of(slot, chain)).max().unwrap_or(0);
        let resumes = |length: &usize| groups().all(|slot| self.holds(slot, chain[*length - 1]));
        Chunks::of((1..=longest).rev().find(resumes).unwrap_or(0))
    }

    fn leading_of(&self, slot: SlotId, chain: &[PrefixKey]) -> usize {
        if self.slots.at(slot).is_whole() {
            let holds = |key: &PrefixKey| self.holds(slot, *key);
            // Mostly all of it, where the caller knows how much can be there at most.
            return if chain.last().is_some_and(holds) {
                chain.len()
            } else {
                chain.partition_point(holds)
            };
        }
        chain.iter().take_while(|key| self.holds(slot, **key)).count()
    }

    fn holds(&self, slot: SlotId, key: PrefixKey) -> bool {
        let entry = self.table.find(key);
        entry.is_some_and(|entry| self.holders.contains(self.table.holders(entry), slot))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use overdraft_units::{BlockSize, CacheSalt, TokenId};

    use super::*;
    use crate::prefix::{Chunking, Event, Matches, PrefixChain, PrefixLimits};

    fn chain(blocks: u32) -> PrefixChain {
        let size = BlockSize::new(16).unwrap();
        let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Tokens(size));
        chain.push_tokens(&(0..16 * blocks).map(TokenId).collect::<Vec<_>>());
        chain
    }

    #[test]
    fn a_prefix_is_reused_up_to_a_block_that_all_groups_hold() {
        let mut index = PrefixIndex::new(PrefixLimits::default());
        let (one, window) = (WorkerId::at(0), LayerGroup::new(1).unwrap());
        let chain = chain(12);
        let keys = chain.keys();
        let leading = |index: &PrefixIndex| {
            let mut matches = Matches::new();
            index.lookup(keys, &mut matches);
            assert_eq!(matches.leading(one), index.reported_leading(one, keys));
            matches.leading(one).get()
        };
        index.handle(one, Event::Cleared);
        index.handle(one, Event::Stored { parent: None, keys: &keys[..10] });
        assert_eq!(leading(&index), 10, "one group");
        // The window keeps the end of two prompts, of 4 and of 10 blocks.
        index.handle_group(one, window, Event::Stored { parent: Some(keys[1]), keys: &keys[2..4] });
        assert_eq!(leading(&index), 4);
        index.handle_group(
            one,
            window,
            Event::Stored { parent: Some(keys[7]), keys: &keys[8..10] },
        );
        assert_eq!(leading(&index), 10);
        index.handle_group(one, window, Event::Removed { keys: &keys[8..10] });
        assert_eq!(leading(&index), 4);
        index.handle(one, Event::Removed { keys: &keys[3..10] });
        assert_eq!(leading(&index), 3);
        index.handle(one, Event::Cleared);
        assert_eq!(leading(&index), 0);
        index.handle(one, Event::Stored { parent: None, keys: &keys[..10] });
        assert_eq!(leading(&index), 10, "one group again");
    }

    #[test]
    fn of_a_part_of_a_prompt_as_much_is_reported_as_it_has() {
        let mut index = PrefixIndex::new(PrefixLimits::default());
        let one = WorkerId::at(0);
        let chain = chain(12);
        let keys = chain.keys();
        index.handle(one, Event::Cleared);
        index.handle(one, Event::Stored { parent: None, keys: &keys[..7] });
        for part in 0..=keys.len() {
            let reported = index.reported_leading(one, &keys[..part]).get();
            assert_eq!(reported as usize, part.min(7), "of {part}");
        }
    }

    #[test]
    fn what_is_not_kept_apart_is_no_group() {
        assert_eq!(LayerGroup::new(0), Some(LayerGroup::FIRST));
        assert!(LayerGroup::new(15).is_some());
        assert_eq!(LayerGroup::new(16), None);
    }
}
