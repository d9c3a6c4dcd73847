//! Cache change log: which pages were stored and evicted, for KV events.
//!
//! It serves indexes of what is cached where. A page is recorded when the step that fills it is
//! closed, not when it becomes findable, so a failed step leaves no record. Consecutive pages are
//! recorded together (`docs/design/kv-events.md`).
//!
//! **Invariant:** the changes add up to the pages that can be found between steps; nothing is
//! recorded unless recording is on, and never more than [`CHANGES_PAGES_MAX`] pages at once.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{CacheSalt, TokenId};

/// Maximum pages recorded between two reads; a step stores and evicts some hundreds.
pub const CHANGES_PAGES_MAX: usize = 1 << 16;

/// Hash of a page's content and all before it, chained from the salt.
///
/// It is only a name: hashes may collide, so no page is shared because of an equal name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageName(pub u64);

/// One change of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// These pages can be found from now on.
    Stored(StoredPages),
    /// These cannot be found any more.
    Removed(Vec<PageName>),
    /// More happened than was recorded; everything recorded before it is lost too.
    Lost,
}

/// Pages that were filled, each following the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPages {
    /// What the first one follows.
    pub after: PageParent,
    /// The pages, at least one.
    pub names: Vec<PageName>,
    /// The tokens of all of them.
    pub tokens: Vec<TokenId>,
}

/// What a page follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageParent {
    /// Nothing: it is the first page under this salt.
    Root(CacheSalt),
    /// This page.
    Page(PageName),
}

/// The changes since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeLog {
    changes: Vec<CacheChange>,
    /// Pages in `changes`.
    pages: usize,
}

impl ChangeLog {
    /// Notes that a page holds `tokens`.
    pub(super) fn stored(&mut self, name: PageName, after: PageParent, tokens: &[TokenId]) {
        if !self.has_room() {
            return;
        }
        if let Some(CacheChange::Stored(last)) = self.changes.last_mut()
            && last.names.last().copied().map(PageParent::Page) == Some(after)
        {
            last.names.push(name);
            last.tokens.extend_from_slice(tokens);
            return;
        }
        let stored = StoredPages { after, names: vec![name], tokens: tokens.to_vec() };
        self.changes.push(CacheChange::Stored(stored));
    }

    /// Notes that a page was given up.
    pub(super) fn removed(&mut self, name: PageName) {
        if !self.has_room() {
            return;
        }
        if let Some(CacheChange::Removed(names)) = self.changes.last_mut() {
            names.push(name);
            return;
        }
        self.changes.push(CacheChange::Removed(vec![name]));
    }

    /// All changes since the last call, in order.
    pub(super) fn take(&mut self) -> Vec<CacheChange> {
        self.pages = 0;
        core::mem::take(&mut self.changes)
    }

    /// Counts one more page; if that is too many, everything is lost.
    fn has_room(&mut self) -> bool {
        if self.pages == CHANGES_PAGES_MAX {
            self.changes.clear();
            self.changes.push(CacheChange::Lost);
            return false;
        }
        self.pages += 1;
        true
    }
}
