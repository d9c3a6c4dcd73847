//! KV event observer: hands cache changes from the engine's thread to the publisher, non-blocking.
//!
//! **Invariant:** changes arrive in order; where some were dropped because the publisher is behind,
//! [`CacheChange::Lost`] precedes the next that arrive.

use overdraft_engine::{CacheChanges, Observation, Observer};
use overdraft_scheduler::batch::CacheChange;
use tokio::sync::mpsc::Sender;

/// An observer beside another.
pub(super) struct CacheObserver {
    inner: Box<dyn Observer>,
    changes: Sender<Vec<CacheChanges>>,
    /// Whether something could not be handed over.
    lost: bool,
}

impl CacheObserver {
    pub(super) fn new(inner: Box<dyn Observer>, changes: Sender<Vec<CacheChanges>>) -> Self {
        Self { inner, changes, lost: false }
    }
}

impl Observer for CacheObserver {
    fn observe(&mut self, observation: &Observation) {
        self.inner.observe(observation);
    }

    fn watches_cache(&self) -> bool {
        true
    }

    fn observe_cache(&mut self, changes: CacheChanges) {
        let mut all = Vec::with_capacity(2);
        if self.lost {
            all.push(CacheChanges::Pages(vec![CacheChange::Lost]));
        }
        all.push(changes);
        // A publisher that has ended publishes nothing; that is no loss.
        self.lost = self.changes.try_send(all).is_err();
    }
}
