//! Single flight of block fetches: one request fetches what begins with a block, and those that need the same wait for it.

use std::sync::PoisonError;

use overdraft_wire::kv_blocks::BlockKey;
use tokio::sync::watch;

use super::Inner;

/// The right to fetch what begins with this block; dropping it tells those who wait for it.
pub(super) struct Turn<'a> {
    share: &'a Inner,
    key: BlockKey,
    _end: watch::Sender<()>,
}

impl<'a> Turn<'a> {
    /// The right, or the end of the turn of the request that has it.
    pub(super) fn take(share: &'a Inner, key: BlockKey) -> Result<Self, watch::Receiver<()>> {
        let mut under_way = share.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = under_way.get(&key) {
            return Err(other.clone());
        }
        let (end, others) = watch::channel(());
        under_way.insert(key, others);
        Ok(Self { share, key, _end: end })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut under_way = self.share.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&self.key);
    }
}
