//! KV event translation: block events of an engine in the words of the prefix index.
//!
//! **Invariant:** whatever entered a block's hash at the engine enters our key: blocks that differ at
//! the engine for any reason never share a key, and a client's salt gives the same one as its
//! requests do.

use overdraft_core::prefix::{
    BlockEvent, BlockName, Medium, StoredBlocks, digest_of, salt_of, salt_with_adapter,
};
use overdraft_units::{BlockSize, CacheSalt};
use overdraft_wire::kv_events::{Batch, EngineHash, ExtraKeys, KvEvent, Stored};

/// The storage medium whose blocks count as cached.
const DEVICE: &str = "GPU";

/// The salt of a request: that of the blocks an engine stores for it.
pub fn salt_of_request(cache_salt: Option<&str>, adapter: Option<&str>) -> CacheSalt {
    let salt = cache_salt.map_or(CacheSalt(0), salt_of);
    adapter.map_or(salt, |adapter| salt_with_adapter(salt, adapter))
}

/// Tokens to a block of those that a batch says are stored on the device, if any are.
pub fn block_size_of(batch: &Batch) -> Option<BlockSize> {
    batch.events.iter().find_map(|event| match event {
        KvEvent::Stored(stored) if medium(stored.medium.as_deref()) == Medium::Device => {
            BlockSize::new(stored.block_size)
        }
        _ => None,
    })
}

/// Gives what is stored to `handle`, in the core's words.
pub(super) fn with_stored<T>(stored: &Stored, handle: impl FnOnce(BlockEvent<'_>) -> T) -> T {
    let mut extras: Vec<u64> = stored.extra.iter().map(digest).collect();
    let mut salt = None;
    if let (None, Some(ExtraKeys::Salt(text))) = (&stored.parent, stored.extra.first()) {
        // Only at the front of a prompt is it a salt; further on it is something like an image.
        salt = Some(text.as_str());
        extras[0] = 0;
    }
    handle(BlockEvent::Stored(StoredBlocks {
        parent: stored.parent.as_ref().map(name),
        names: &names(&stored.hashes),
        tokens: &stored.tokens,
        block_size: stored.block_size,
        medium: medium(stored.medium.as_deref()),
        salt: salt_of_request(salt, stored.lora.as_deref()),
        extras: &extras,
    }))
}

fn digest(keys: &ExtraKeys) -> u64 {
    match keys {
        ExtraKeys::Nothing => 0,
        keys => digest_of(keys.as_bytes()).max(1),
    }
}

pub(super) fn names(hashes: &[EngineHash]) -> Vec<BlockName> {
    hashes.iter().map(name).collect()
}

pub(super) fn name(hash: &EngineHash) -> BlockName {
    BlockName(hash.name())
}

/// An engine that does not say has but one.
pub(super) fn medium(medium: Option<&str>) -> Medium {
    match medium {
        None => Medium::Device,
        Some(medium) if medium.eq_ignore_ascii_case(DEVICE) => Medium::Device,
        Some(_) => Medium::Elsewhere,
    }
}
