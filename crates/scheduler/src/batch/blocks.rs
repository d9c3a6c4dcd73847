//! Block pool: allocation, reference counts and LRU eviction of KV cache pages (paged KV cache).
//!
//! A page is *held* while block tables refer to it, *cached* while no table does but the prefix
//! index can still find its content, and *blank* otherwise. Idle pages (cached and blank) are in
//! one free list, allocated from the front. Blank pages join at the front, cached ones at the back,
//! so the list is an LRU that uses blank pages before it evicts cached ones.
//!
//! **Invariant:** a table that holds a page holds its parent too, and a table is released tail
//! first. Hence an idle parent is always behind its idle children, and no page is evicted while one
//! that follows it can still be found.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{BlockId, BlockSize, Blocks, TokenId};

use super::changes::{CacheChange, ChangeLog, PageName, PageParent};
use super::link::Link;
use super::prefix::{Parent, PrefixIndex};

/// All pages of one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockPool {
    pages: Vec<Page>,
    index: PrefixIndex,
    /// Front of the list of idle pages: allocated next.
    front: Link,
    back: Link,
    idle: u32,
    cached: u32,
    /// Evictions so far: cached pages that were allocated again.
    evicted: u64,
    /// Filled while someone listens.
    changes: Option<ChangeLog>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Page {
    /// Reference count: how many tables refer to it.
    holders: u32,
    /// Whether the prefix index has it; repeated here because every release reads it.
    is_findable: bool,
    /// Neighbours in the list, meaningful while idle.
    before: Link,
    behind: Link,
}

impl BlockPool {
    /// `blocks` blank pages of `size`.
    pub(super) fn new(blocks: Blocks, size: BlockSize) -> Self {
        Self::with_index(blocks, PrefixIndex::new(blocks, size))
    }

    /// A pool over a given, empty index.
    pub(super) fn with_index(blocks: Blocks, index: PrefixIndex) -> Self {
        let pages = vec![Page::default(); blocks.get() as usize];
        let (front, back) = (Link::NONE, Link::NONE);
        let (idle, cached, evicted) = (0, 0, 0);
        let mut pool = Self { pages, index, front, back, idle, cached, evicted, changes: None };
        for block in (0..blocks.get()).rev() {
            pool.line_up_front(BlockId(block));
        }
        pool
    }

    /// Pages that [`Self::allocate`] can give out.
    pub(super) fn idle(&self) -> Blocks {
        Blocks::new(self.idle)
    }

    /// Idle pages whose content can be found.
    pub(super) fn cached(&self) -> Blocks {
        Blocks::new(self.cached)
    }

    /// Evictions so far: cached pages that were allocated again.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How often tables name the page.
    pub(super) fn holders(&self, block: BlockId) -> u32 {
        self.pages[block.0 as usize].holders
    }

    /// The page that holds `tokens` after `parent`; it stays where it is until shared.
    pub(super) fn find(&self, parent: Parent, tokens: &[TokenId]) -> Option<BlockId> {
        self.index.find(parent, tokens)
    }

    /// Adds the pages that hold these tokens after `parent`, as far as there is no gap.
    pub(super) fn find_run(&self, parent: Parent, tokens: &[TokenId], found: &mut Vec<BlockId>) {
        self.index.find_run(parent, tokens, found);
    }

    /// Takes the page at the front of the line, forgetting what it held.
    pub(super) fn allocate(&mut self) -> Option<BlockId> {
        let block = self.front.page()?;
        self.leave_line(block);
        let page = &mut self.pages[block.0 as usize];
        page.holders = 1;
        if core::mem::take(&mut page.is_findable) {
            // What is idle was filled by a step that is closed, so it was announced.
            if let Some(changes) = &mut self.changes {
                changes.removed(PageName(self.index.key_of(block)));
            }
            self.index.remove(block);
            self.cached -= 1;
            self.evicted += 1;
        }
        Some(block)
    }

    /// Names a registered page once more.
    pub(super) fn share(&mut self, block: BlockId) {
        debug_assert!(self.index.contains(block), "only registered pages are shared");
        let page = &mut self.pages[block.0 as usize];
        page.holders += 1;
        if page.holders == 1 {
            self.leave_line(block);
            self.cached -= 1;
        }
    }

    /// Names a page once less. Tables give their pages back tail first.
    pub(super) fn release(&mut self, block: BlockId) {
        let page = &mut self.pages[block.0 as usize];
        assert!(0 < page.holders, "a page is released as often as it is taken");
        page.holders -= 1;
        if 0 < page.holders {
            return;
        }
        debug_assert_eq!(page.is_findable, self.index.contains(block), "both say the same");
        if page.is_findable {
            self.line_up_back(block);
            self.cached += 1;
        } else {
            self.line_up_front(block);
        }
    }

    /// Makes a held page findable as `tokens` after `parent`.
    pub(super) fn register(&mut self, block: BlockId, parent: Parent, tokens: &[TokenId]) {
        debug_assert!(0 < self.holders(block), "what nobody holds is not being written");
        self.index.insert(block, parent, tokens);
        self.pages[block.0 as usize].is_findable = true;
    }

    /// Notes that a findable page is [`super::prefix::STRIDE`] pages behind another, which helps to
    /// find the pages between them.
    pub(super) fn note_far(&mut self, above: BlockId, block: BlockId) {
        self.index.note_far(above, block);
    }

    /// Makes a held page blank again: what it was to hold was never computed.
    pub(super) fn unregister(&mut self, block: BlockId) {
        debug_assert!(0 < self.holders(block), "a page waits in the line with its content");
        self.index.remove(block);
        self.pages[block.0 as usize].is_findable = false;
    }

    /// Records what happens to content from now on.
    pub(super) fn listen(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// What happened to content since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<CacheChange> {
        self.changes.as_mut().map_or_else(Vec::new, ChangeLog::take)
    }

    /// Tells subscribers that a findable page holds what it is found by.
    pub(super) fn announce(&mut self, block: BlockId) {
        let Some(changes) = &mut self.changes else { return };
        let (parent, tokens) = self.index.place(block).expect("only findable pages are announced");
        let after = match parent {
            Parent::Root(salt) => PageParent::Root(salt),
            Parent::Block(parent) => PageParent::Page(PageName(self.index.key_of(parent))),
        };
        changes.stored(PageName(self.index.key_of(block)), after, tokens);
    }

    /// The name of a findable page.
    pub(super) fn name_of(&self, block: BlockId) -> Option<PageName> {
        self.index.contains(block).then(|| PageName(self.index.key_of(block)))
    }

    /// What a findable page follows, and its tokens.
    pub(super) fn place(&self, block: BlockId) -> Option<(Parent, &[TokenId])> {
        self.index.place(block)
    }

    /// Findable pages behind a findable page, and the newest of them unless it has gone since.
    pub(super) fn behind(&self, block: BlockId) -> (u32, Option<BlockId>) {
        self.index.behind(block)
    }

    /// The idle pages, the one that goes first in front.
    pub(super) fn line(&self) -> impl Iterator<Item = BlockId> + '_ {
        core::iter::successors(self.front.page(), |block| {
            self.pages[block.0 as usize].behind.page()
        })
    }

    fn line_up_front(&mut self, block: BlockId) {
        let next = core::mem::replace(&mut self.front, Link::to(block));
        let page = &mut self.pages[block.0 as usize];
        (page.before, page.behind) = (Link::NONE, next);
        match next.page() {
            Some(next) => self.pages[next.0 as usize].before = Link::to(block),
            None => self.back = Link::to(block),
        }
        self.idle += 1;
    }

    fn line_up_back(&mut self, block: BlockId) {
        let last = core::mem::replace(&mut self.back, Link::to(block));
        let page = &mut self.pages[block.0 as usize];
        (page.before, page.behind) = (last, Link::NONE);
        match last.page() {
            Some(last) => self.pages[last.0 as usize].behind = Link::to(block),
            None => self.front = Link::to(block),
        }
        self.idle += 1;
    }

    fn leave_line(&mut self, block: BlockId) {
        let page = &mut self.pages[block.0 as usize];
        let before = core::mem::take(&mut page.before);
        let behind = core::mem::take(&mut page.behind);
        match before.page() {
            Some(before) => self.pages[before.0 as usize].behind = behind,
            None => self.front = behind,
        }
        match behind.page() {
            Some(behind) => self.pages[behind.0 as usize].before = before,
            None => self.back = before,
        }
        self.idle -= 1;
    }
}
