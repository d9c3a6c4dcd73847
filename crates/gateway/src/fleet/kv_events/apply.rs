//! KV event application: feeds a batch of block events into the prefix index.
//!
//! **Invariant:** whatever entered a block's hash at the engine enters our key: blocks that differ at
//! the engine for any reason never share a key, and a client's salt gives the same one as its
//! requests do.

use overdraft_core::prefix::{
    BlockEvent, BlockName, BlockSizeMismatch, Event, EventFeed, Medium, StoredBlocks, digest_of,
    salt_of, salt_with_adapter,
};
use overdraft_units::CacheSalt;
use overdraft_wire::kv_events::{Batch, EngineHash, ExtraKeys, KvEvent, Stored};

/// The storage medium whose blocks count as cached.
const DEVICE: &str = "GPU";

/// The salt of a request: that of the blocks an engine stores for it.
pub fn salt_of_request(cache_salt: Option<&str>, adapter: Option<&str>) -> CacheSalt {
    let salt = cache_salt.map_or(CacheSalt(0), salt_of);
    adapter.map_or(salt, |adapter| salt_with_adapter(salt, adapter))
}

/// Gives a batch to a worker's feed, which tells the index. The first block size that does not fit
/// comes back.
pub fn apply(
    feed: &mut EventFeed,
    batch: &Batch,
    mut tell: impl FnMut(Event<'_>),
) -> Option<BlockSizeMismatch> {
    let mut mismatch = None;
    for event in &batch.events {
        let found = match event {
            KvEvent::Stored(stored) => store(feed, stored, &mut tell),
            KvEvent::Removed(removed) => {
                let names = &*names(&removed.hashes);
                let medium = medium(removed.medium.as_deref());
                feed.handle(&BlockEvent::Removed { names, medium }, &mut tell)
            }
            KvEvent::Cleared => feed.handle(&BlockEvent::Cleared, &mut tell),
            KvEvent::Unknown => None,
        };
        mismatch = mismatch.or(found);
    }
    mismatch
}

fn store(
    feed: &mut EventFeed,
    stored: &Stored,
    tell: &mut impl FnMut(Event<'_>),
) -> Option<BlockSizeMismatch> {
    let mut extras: Vec<u64> = stored.extra.iter().map(digest).collect();
    let mut salt = None;
    if let (None, Some(ExtraKeys::Salt(text))) = (&stored.parent, stored.extra.first()) {
        // Only at the front of a prompt is it a salt; further on it is something like an image.
        salt = Some(text.as_str());
        extras[0] = 0;
    }
    feed.handle(
        &BlockEvent::Stored(StoredBlocks {
            parent: stored.parent.as_ref().map(name),
            names: &names(&stored.hashes),
            tokens: &stored.tokens,
            block_size: stored.block_size,
            medium: medium(stored.medium.as_deref()),
            salt: salt_of_request(salt, stored.lora.as_deref()),
            extras: &extras,
        }),
        tell,
    )
}

fn digest(keys: &ExtraKeys) -> u64 {
    match keys {
        ExtraKeys::Nothing => 0,
        keys => digest_of(keys.as_bytes()).max(1),
    }
}

fn names(hashes: &[EngineHash]) -> Vec<BlockName> {
    hashes.iter().map(name).collect()
}

fn name(hash: &EngineHash) -> BlockName {
    BlockName(hash.name())
}

/// An engine that does not say has but one.
fn medium(medium: Option<&str>) -> Medium {
    match medium {
        None => Medium::Device,
        Some(medium) if medium.eq_ignore_ascii_case(DEVICE) => Medium::Device,
        Some(_) => Medium::Elsewhere,
    }
}
