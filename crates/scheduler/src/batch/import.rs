//! Page import: KV pages that another worker computed enter the prefix cache.
//!
//! An import is a transaction between two steps, as a step is one between two plans. The caller
//! offers pages of a prefix; the import says which of them the cache lacks and where to write them;
//! the caller reports how many were written. From then on they are cached pages like any other,
//! found by the prefix index (`docs/design/kv-share.md#r5`).
//!
//! **Invariant:** only written pages become findable, and an import takes no page that a running
//! sequence needs in the next step.

use alloc::vec::Vec;
use core::ops::Range;

use overdraft_units::{BlockId, CacheSalt, TokenId};

use super::prefix::Parent;
use super::scheduler::Scheduler;

/// The offered pages of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import<'a> {
    /// The salt of the prefix.
    pub salt: CacheSalt,
    /// Its tokens, at least up to the end of the last offered page.
    pub tokens: &'a [TokenId],
    /// Which pages of it are offered, counted from the beginning of the prefix.
    pub pages: Range<usize>,
}

/// A page to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedPage {
    /// Its number in the prefix.
    pub number: usize,
    /// The page to write it to.
    pub block: BlockId,
}

/// What was planned and has not been answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenImport {
    salt: CacheSalt,
    tokens: Vec<TokenId>,
    /// The pages of the prefix that were found, held until the import is closed.
    found: Vec<BlockId>,
    /// Those to be written, which follow them.
    fresh: Vec<BlockId>,
}

impl OpenImport {
    /// All pages it holds, in the order of the prefix.
    pub(super) fn table(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.found.iter().chain(&self.fresh).copied()
    }

    /// What the page with this number follows.
    fn parent(&self, number: usize) -> Parent {
        match number.checked_sub(1) {
            None => Parent::Root(self.salt),
            Some(before) => {
                let place = before.checked_sub(self.found.len());
                Parent::Block(place.map_or_else(|| self.found[before], |at| self.fresh[at]))
            }
        }
    }
}

impl Scheduler {
    /// The cached pages that hold the first of these tokens, as far as there is no gap.
    pub fn leading_pages(&self, salt: CacheSalt, tokens: &[TokenId]) -> Vec<BlockId> {
        let mut found: Vec<BlockId> = Vec::new();
        self.pool.find_run(Parent::Root(salt), tokens, &mut found);
        // What an open step fills holds nothing yet.
        let offered = |block: &BlockId| self.step.offered.contains(block);
        found.truncate(found.iter().position(offered).unwrap_or(found.len()));
        found
    }

    /// Decides which pages at hand are to be written, and opens the import if there are any; it must
    /// be closed by [`Self::handle_import`] before the next plan. There are none where the cache has
    /// them all, where what they follow is not cached, and where no page can be spared.
    pub fn plan_import(&mut self, import: &Import<'_>) -> Vec<ImportedPage> {
        assert!(!self.step.is_open(), "pages come between steps");
        assert!(self.import.is_none(), "an import is closed before the next is planned");
        let size = self.limits.block_size.get() as usize;
        let end = import.pages.end.min(import.tokens.len() / size);
        let tokens = &import.tokens[..end * size];
        let found = self.leading_pages(import.salt, tokens);
        let first = found.len();
        if first < import.pages.start || end <= first {
            return Vec::new();
        }
        // Held first: what is taken for the new pages must not be what they follow.
        for block in &found {
            self.pool.share(*block);
        }
        // Each running sequence may want one in the next step.
        let idle = self.pool.idle().get() as usize;
        let spare = idle.saturating_sub(self.running.len()).min(end - first);
        let fresh: Vec<BlockId> = (0..spare).filter_map(|_| self.pool.allocate()).collect();
        let place =
            |(at, block): (usize, &BlockId)| ImportedPage { number: first + at, block: *block };
        let planned: Vec<ImportedPage> = fresh.iter().enumerate().map(place).collect();
        let open = OpenImport { salt: import.salt, tokens: tokens.to_vec(), found, fresh };
        if planned.is_empty() {
            self.release_import(&open);
        } else {
            self.import = Some(open);
        }
        planned
    }

    /// Closes the open import: the first `written` of its pages hold what they should.
    pub fn handle_import(&mut self, written: usize) {
        let open = self.import.take().expect("only what was planned is closed");
        let size = self.limits.block_size.get() as usize;
        for (at, block) in open.fresh.iter().take(written).enumerate() {
            let number = open.found.len() + at;
            let page = &open.tokens[number * size..(number + 1) * size];
            self.pool.register(*block, open.parent(number), page);
            self.pool.announce(*block);
        }
        self.release_import(&open);
    }

    /// Tail first, so that nothing is evicted before what follows it.
    fn release_import(&mut self, open: &OpenImport) {
        for block in open.found.iter().chain(&open.fresh).rev() {
            self.pool.release(*block);
        }
    }
}
