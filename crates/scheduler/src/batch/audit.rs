//! State audit: checks every invariant that the other files promise.
//!
//! It serves tests and simulations, and takes time proportional to the whole state.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use overdraft_units::BlockId;

use super::changes::PageName;
use super::import::OpenImport;
use super::prefix::Parent;
use super::scheduler::Scheduler;
use super::sequence::{Phase, Sequence};

impl Scheduler {
    /// Panics if an invariant of the state is broken.
    pub fn audit(&self) {
        self.audit_holders();
        self.audit_line();
        self.audit_trie();
        self.audit_order();
        for sequence in self.sequences.iter() {
            self.audit_sequence(sequence);
        }
    }

    /// The names of all pages that can be found, ascending; two pages may share one by accident.
    pub fn findable(&self) -> Vec<PageName> {
        let pages = (0..self.limits.blocks.get()).map(BlockId);
        let mut names: Vec<PageName> = pages.filter_map(|block| self.pool.name_of(block)).collect();
        names.sort_unstable();
        names
    }

    /// Each page is held exactly as often as tables name it.
    fn audit_holders(&self) {
        let mut named: BTreeMap<BlockId, u32> = BTreeMap::new();
        for block in self.sequences.iter().flat_map(|sequence| &sequence.table) {
            *named.entry(*block).or_default() += 1;
        }
        for block in self.import.iter().flat_map(OpenImport::table) {
            *named.entry(block).or_default() += 1;
        }
        for block in (0..self.limits.blocks.get()).map(BlockId) {
            let times = named.get(&block).copied().unwrap_or(0);
            assert_eq!(self.pool.holders(block), times, "holders of page {}", block.0);
        }
    }

    /// The line has every idle page once, and no findable page before one that follows it.
    fn audit_line(&self) {
        let mut places: BTreeMap<BlockId, usize> = BTreeMap::new();
        let bound = self.limits.blocks.get() as usize + 1;
        for (place, block) in self.pool.line().take(bound).enumerate() {
            assert_eq!(self.pool.holders(block), 0, "page {} is held and idle", block.0);
            assert_eq!(places.insert(block, place), None, "page {} stands twice", block.0);
        }
        assert_eq!(places.len(), self.pool.idle().get() as usize, "idle pages stand in the line");
        let idle = (0..self.limits.blocks.get()).filter(|n| self.pool.holders(BlockId(*n)) == 0);
        assert_eq!(places.len(), idle.count(), "pages nobody holds stand in the line");
        let cached = places.keys().filter(|block| self.pool.place(**block).is_some()).count();
        assert_eq!(cached, self.pool.cached().get() as usize, "cached pages");
        for block in (0..self.limits.blocks.get()).map(BlockId) {
            let Some((parent, tokens)) = self.pool.place(block) else { continue };
            assert_eq!(self.pool.find(parent, tokens), Some(block), "a place has one page");
            let Parent::Block(parent) = parent else { continue };
            assert!(self.pool.place(parent).is_some(), "page {} follows nothing", block.0);
            match (places.get(&parent), places.get(&block)) {
                (Some(parent), Some(child)) => assert!(child < parent, "a parent goes first"),
                (Some(_), None) => panic!("page {} is held and its parent is not", block.0),
                (None, _) => {}
            }
        }
    }

    /// Each findable page counts those behind it, and its newest one is one of them.
    fn audit_trie(&self) {
        let mut behind: BTreeMap<BlockId, u32> = BTreeMap::new();
        let all = || (0..self.limits.blocks.get()).map(BlockId);
        let parent = |block| self.pool.place(block).map(|(parent, _)| parent);
        for above in all().filter_map(parent) {
            if let Parent::Block(above) = above {
                *behind.entry(above).or_default() += 1;
            }
        }
        for block in all().filter(|block| self.pool.place(*block).is_some()) {
            let (count, newest) = self.pool.behind(block);
            assert_eq!(count, behind.get(&block).copied().unwrap_or(0), "behind page {}", block.0);
            if let Some(newest) = newest {
                assert_eq!(parent(newest), Some(Parent::Block(block)), "it follows");
            }
        }
    }

    /// Who runs is listed by turn, and everybody is either listed or waits.
    fn audit_order(&self) {
        let ranks = self.running.iter().map(|handle| self.sequences[*handle].rank);
        assert!(ranks.is_sorted(), "running sequences stand in the order of their turns");
        assert!(self.running.len() <= self.limits.running_max as usize, "running_max");
        for handle in &self.running {
            assert_ne!(self.sequences[*handle].phase, Phase::Waiting, "it runs");
        }
        for (rank, handle) in self.waiting.iter() {
            assert_eq!(self.sequences[handle].phase, Phase::Waiting, "it waits");
            assert_eq!(self.sequences[handle].rank, rank, "its place is its turn");
        }
        let alive = self.sequences.iter().count();
        assert_eq!(self.running.len() + self.waiting.len(), alive, "everyone is somewhere");
        for planned in &self.step.slots {
            let phase = self.sequences[planned.handle].phase;
            assert!(matches!(phase, Phase::Stepping | Phase::Leaving), "a slot is being computed");
        }
    }

    /// Its pages suffice, and those it offers form the chain of its tokens.
    fn audit_sequence(&self, sequence: &Sequence) {
        let size = self.limits.block_size;
        assert!(sequence.computed < sequence.known(), "a token is left to sample from");
        assert!(sequence.known() <= sequence.ceiling, "prompt and completion have an end");
        assert!(size.pages_for(sequence.computed).get() as usize <= sequence.table.len(), "pages");
        assert!(sequence.offered <= sequence.table.len(), "only pages it has are offered");
        if !self.step.is_open() {
            let full = (sequence.computed.get() / size.get()) as usize;
            assert!(full <= sequence.offered, "what is computed to the end of a page is offered");
        }
        for number in 0..sequence.offered {
            let place = self.pool.place(sequence.table[number]);
            let expected = (sequence.parent(number), sequence.page(number, size));
            assert_eq!(place, Some(expected), "page {number} of {}", sequence.id);
        }
        if sequence.phase == Phase::Waiting {
            assert!(sequence.table.is_empty(), "who waits holds nothing");
        }
    }
}
