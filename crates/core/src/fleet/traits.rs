//! Worker traits: what is said of a worker beside its load, by settings or by itself.

use super::{BlockSharing, Fleet, WorkerId};
use crate::estimate::Pace;

impl Fleet {
    /// From now on the worker shares blocks with the others of its model that do.
    pub fn share_blocks(&mut self, worker: WorkerId) {
        self.changing(worker).blocks = BlockSharing::Shared(None);
    }

    /// The worker computes so many sequences at once.
    pub fn seat(&mut self, worker: WorkerId, seats: u32) {
        self.changing(worker).seats.configure(seats);
    }

    /// The worker said how many tokens of prefixes it fetches in a second.
    pub fn fetched(&mut self, worker: WorkerId, tokens_per_second: u64) {
        let blocks = &mut self.changing(worker).blocks;
        if blocks.is_shared() && 0 < tokens_per_second {
            *blocks = BlockSharing::Shared(Some(Pace::per_second(tokens_per_second)));
        }
    }
}
