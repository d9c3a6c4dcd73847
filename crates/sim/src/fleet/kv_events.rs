//! KV events in the simulation: a worker's cache changes, fed into the gateway's prefix index.

use overdraft_core::fleet::WorkerId;
use overdraft_core::prefix::{BlockEvent, BlockName, EventFeed, Medium, StoredBlocks};
use overdraft_core::route::Router;
use overdraft_scheduler::batch::{CacheChange, PageName, PageParent};
use overdraft_units::{BlockSize, CacheSalt};

/// A worker from which nothing has been heard yet.
pub(super) fn begin(router: &mut Router, worker: WorkerId, page: BlockSize) -> EventFeed {
    let mut feed = EventFeed::new(page);
    router.reports_by(worker, page);
    feed.restart(|event| router.cache_changed(worker, event));
    feed
}

/// Takes in what happened in a worker's cache.
pub(super) fn apply(
    router: &mut Router,
    worker: WorkerId,
    feed: &mut EventFeed,
    page: BlockSize,
    changes: &[CacheChange],
) {
    let names = |pages: &[PageName]| -> Vec<BlockName> {
        pages.iter().map(|page| BlockName(page.0)).collect()
    };
    for change in changes {
        let tell = |event: overdraft_core::prefix::Event<'_>| router.cache_changed(worker, event);
        match change {
            CacheChange::Stored(stored) => {
                let parent = match stored.after {
                    PageParent::Root(_) => None,
                    PageParent::Page(page) => Some(BlockName(page.0)),
                };
                let blocks = StoredBlocks {
                    parent,
                    names: &names(&stored.names),
                    tokens: &stored.tokens,
                    block_size: page.get(),
                    medium: Medium::Device,
                    salt: CacheSalt(0),
                    extras: &[],
                };
                // Both sides cut by the same page.
                let _mismatch = feed.handle(&BlockEvent::Stored(blocks), tell);
            }
            CacheChange::Removed(gone) => {
                let names = &*names(gone);
                let removed = BlockEvent::Removed { names, medium: Medium::Device };
                let _mismatch = feed.handle(&removed, tell);
            }
            CacheChange::Lost => feed.forget(tell),
        }
    }
}
