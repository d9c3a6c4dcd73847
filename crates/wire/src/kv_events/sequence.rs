//! KV event sequence numbers: detects gaps and publisher restarts.
//!
//! Batches are numbered from zero since the engine started, in eight bytes, big-endian. A
//! subscriber that misses some requests a replay by the first number; the reply ends with -1.
//!
//! **Invariant:** every batch is classified as next, known, after a gap, or the first of a new run;
//! only the next and a first one advance the count.

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

/// What a batch's number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next: apply it.
    Next,
    /// It was applied before: pass over it.
    Known,
    /// Those from `first` on are missing: ask for them, or forget the worker's blocks and `skip`.
    Gap {
        /// The first that is missing.
        first: u64,
    },
    /// The engine began anew: its blocks are gone. Apply it after clearing.
    Restarted,
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

    /// Takes in the number of a batch.
    ///
    /// A zero after others is a restart, even though a replay could repeat it: replays are asked for
    /// from the first missing number on, and that is never zero again.
    pub const fn arrived(&mut self, number: u64) -> Arrival {
        if number == self.next {
            self.next += 1;
            return Arrival::Next;
        }
        if number == 0 {
            self.next = 1;
            return Arrival::Restarted;
        }
        if number < self.next { Arrival::Known } else { Arrival::Gap { first: self.next } }
    }

    /// Gives up what is missing: `number` is the next.
    pub const fn skip(&mut self, number: u64) {
        self.next = number;
    }
}
