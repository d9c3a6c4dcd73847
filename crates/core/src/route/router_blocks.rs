//! KV block sharing: which workers can fetch blocks from their peers, and how fast.

use super::router::Router;
use crate::fleet::WorkerId;

impl Router {
    /// Registers that the worker shares blocks with its peers of the same model.
    pub fn share_blocks(&mut self, worker: WorkerId) {
        self.fleet.share_blocks(worker);
    }

    /// The worker computes so many sequences at once.
    pub fn seat(&mut self, worker: WorkerId, seats: u32) {
        self.fleet.seat(worker, seats);
    }

    /// Records the tokens per second that the worker fetched; zero before its first fetch.
    pub fn fetched(&mut self, worker: WorkerId, tokens_per_second: u64) {
        if self.fleet.is_member(worker) {
            self.fleet.fetched(worker, tokens_per_second);
        }
    }
}
