//! Who shares the blocks of its cache, and how fast?

use super::router::Router;
use crate::fleet::WorkerId;

impl Router {
    /// From now on the worker shares blocks with the others of its model that do.
    pub fn share_blocks(&mut self, worker: WorkerId) {
        self.fleet.share_blocks(worker);
    }

    /// The worker said how many tokens of prefixes it fetched in a second; zero before it did.
    pub fn fetched(&mut self, worker: WorkerId, tokens_per_second: u64) {
        if self.fleet.is_member(worker) {
            self.fleet.fetched(worker, tokens_per_second);
        }
    }
}
