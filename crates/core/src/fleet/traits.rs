//! Worker traits: what is said of a worker beside its load, by settings or by itself.

use super::{BlockSharing, Fleet, WorkerId};
use crate::estimate::Pace;

impl Fleet {
    /// From now on the worker shares blocks with the others of its model that do; how fast it fetches them, if it did
    /// before, is still known.
    pub fn share_blocks(&mut self, worker: WorkerId) {
        let blocks = &mut self.changing(worker).blocks;
        if !blocks.is_shared() {
            *blocks = BlockSharing::Shared(None);
        }
    }

    /// From now on the worker computes what it lacks.
    pub fn compute_alone(&mut self, worker: WorkerId) {
        self.changing(worker).blocks = BlockSharing::Alone;
    }

    /// The worker computes so many sequences at once; without a number that is learnt.
    pub fn seat(&mut self, worker: WorkerId, seats: Option<u32>) {
        self.changing(worker).seats.configure(seats);
    }

    /// Requests go to the worker by other settings: what it turned away, it may take now.
    pub fn resettled(&mut self, worker: WorkerId) {
        self.changing(worker).refusals.forget();
    }

    /// The worker said how many tokens of prefixes it fetches in a second.
    pub fn fetched(&mut self, worker: WorkerId, tokens_per_second: u64) {
        let blocks = &mut self.changing(worker).blocks;
        if blocks.is_shared() && 0 < tokens_per_second {
            *blocks = BlockSharing::Shared(Some(Pace::per_second(tokens_per_second)));
        }
    }
}
