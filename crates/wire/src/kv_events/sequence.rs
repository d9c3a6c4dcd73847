//! KV event sequence numbers: how batches are counted, and what ends a replay.
//!
//! Batches are numbered from zero since the engine started, in eight bytes, big-endian. A
//! subscriber that misses some requests a replay by the first number; the reply ends with -1.

/// Number of the message that ends a replay: -1 as the engine counts.
pub const REPLAY_END: u64 = u64::MAX;

/// Reads a batch's number from its frame; `None` if that has not eight bytes.
pub fn read_sequence(frame: &[u8]) -> Option<u64> {
    frame.try_into().ok().map(u64::from_be_bytes)
}

/// Writes a batch's number, or the first number of those wanted again.
pub const fn write_sequence(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The count of one publisher's batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    next: u64,
}

impl Sequence {
    /// A publisher of which nothing has come.
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// The number expected next.
    pub const fn next(self) -> u64 {
        self.next
    }

    /// Goes on from there: `number` is the next, whatever may be missing before it.
    pub const fn skip(&mut self, number: u64) {
        self.next = number;
    }
}
