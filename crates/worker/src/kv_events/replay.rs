//! Replay buffer: the last batches of KV events, bounded in number and bytes.
//!
//! **Invariant:** the buffered numbers ascend, the newest batch is always among them, and neither
//! count nor bytes exceed the bounds by more than that one.

use std::collections::VecDeque;

use bytes::Bytes;

/// Maximum bytes of buffered batches, whatever their number.
const REPLAY_BYTES_MAX: usize = 64 << 20;

/// The last batches.
#[derive(Debug)]
pub(super) struct Replay {
    batches: VecDeque<(u64, Bytes)>,
    bytes: usize,
    steps_max: usize,
}

impl Replay {
    /// Keeps the last `steps_max` batches, at least one.
    pub(super) fn new(steps_max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, steps_max: steps_max.max(1) }
    }

    /// Adds a batch and drops the oldest that do not fit any more.
    pub(super) fn push(&mut self, number: u64, batch: Bytes) {
        self.bytes += batch.len();
        self.batches.push_back((number, batch));
        while self.batches.len() > 1
            && (self.batches.len() > self.steps_max || self.bytes > REPLAY_BYTES_MAX)
        {
            if let Some((_, gone)) = self.batches.pop_front() {
                self.bytes -= gone.len();
            }
        }
    }

    /// Those from `first` on that are still there, in order.
    pub(super) fn since(&self, first: u64) -> Vec<(u64, Bytes)> {
        let from = self.batches.partition_point(|(number, _)| *number < first);
        self.batches.iter().skip(from).cloned().collect()
    }
}
