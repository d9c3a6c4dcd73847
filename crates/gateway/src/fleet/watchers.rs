//! Watchers: the tasks that look after one worker.

use std::sync::Arc;

use overdraft_core::fleet::WorkerId;
use tokio::task::JoinSet;

use super::{Fleet, kv_event_subscriber, maintenance, probe, scrape};

/// Starts what watches one worker.
pub(crate) fn watch_worker(fleet: &Arc<Fleet>, worker: WorkerId) -> JoinSet<()> {
    let mut watchers = JoinSet::new();
    watchers.spawn(probe::watch(Arc::clone(fleet), worker));
    watchers.spawn(scrape::watch(Arc::clone(fleet), worker));
    watchers.spawn(kv_event_subscriber::listen(Arc::clone(fleet), worker));
    watchers.spawn(maintenance::watch(Arc::clone(fleet), worker));
    watchers
}
