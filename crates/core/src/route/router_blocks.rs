//! KV block sharing: which workers can fetch blocks from their peers, and how fast.

use super::router::Router;
use crate::fleet::WorkerId;

impl Router {
    /// Registers that the worker shares blocks with its peers of the same model.
    pub fn share_blocks(&mut self, worker: WorkerId) {
        self.fleet.share_blocks(worker);
    }

    /// Registers that the worker computes what it lacks.
    pub fn compute_alone(&mut self, worker: WorkerId) {
        self.fleet.compute_alone(worker);
    }

    /// The worker computes so many sequences at once; without a number that is learnt.
    pub fn seat(&mut self, worker: WorkerId, seats: Option<u32>) {
        self.fleet.seat(worker, seats);
    }

    /// Requests go to the worker by other settings.
    pub fn resettled(&mut self, worker: WorkerId) {
        self.fleet.resettled(worker);
    }

    /// Records the tokens per second that the worker fetched; zero before its first fetch.
    pub fn fetched(&mut self, worker: WorkerId, tokens_per_second: u64) {
        if self.fleet.is_member(worker) {
            self.fleet.fetched(worker, tokens_per_second);
        }
    }
}
