//! Sampled length scenario: the memory peak of one worker under one draw of output lengths.
//!
//! Sorting at every decision is too slow. Requests are kept in buckets by their remaining length,
//! narrow enough (`estimate/scale.rs`) that counting every request of a bucket with the bucket's
//! upper bound overestimates the growth by at most an eighth, and never underestimates it.

use alloc::boxed::Box;

use super::forecast::WORLDS;
use crate::estimate::{BUCKETS, LONGEST, bucket_of};

/// The requests of one worker in one world.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Bitmap of the buckets that are not empty.
    occupied: u128,
    cells: [Cell; BUCKETS],
    /// Sum of the remaining lengths.
    remaining: u64,
}

/// Requests of about the same remaining length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// At least one for each request.
    sequences: u32,
    /// Cannot overflow: requests are as few and use as little as `forecast.rs` lets them.
    used: u32,
}

/// What remains of a request, and what it uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remains {
    pub(super) remaining: u32,
    pub(super) used: u32,
}

impl World {
    const BLANK: Self =
        Self { occupied: 0, cells: [Cell { sequences: 0, used: 0 }; BUCKETS], remaining: 0 };

    pub(super) fn all() -> Box<[Self; WORLDS]> {
        Box::new([const { Self::BLANK }; WORLDS])
    }

    pub(super) const fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(super) fn put(&mut self, remaining: u32, sequences: u32, used: u32) {
        let bucket = bucket_of(remaining);
        let cell = &mut self.cells[bucket];
        cell.sequences += sequences;
        cell.used += used;
        self.occupied |= 1 << bucket;
        self.remaining += u64::from(remaining) * u64::from(sequences);
    }

    pub(super) fn take(&mut self, remaining: u32, sequences: u32, used: u32) {
        let bucket = bucket_of(remaining);
        let cell = &mut self.cells[bucket];
        cell.sequences -= sequences;
        cell.used -= used;
        if cell.sequences == 0 {
            self.occupied &= !(1 << bucket);
        }
        self.remaining -= u64::from(remaining) * u64::from(sequences);
    }

    /// A request was the first, and is the second.
    pub(super) fn change(&mut self, sequences: u32, before: Remains, after: Remains) {
        if bucket_of(before.remaining) != bucket_of(after.remaining) {
            self.take(before.remaining, sequences, before.used);
            self.put(after.remaining, sequences, after.used);
            return;
        }
        let cell = &mut self.cells[bucket_of(after.remaining)];
        cell.used = cell.used - before.used + after.used;
        let of = |remaining| u64::from(remaining) * u64::from(sequences);
        self.remaining = self.remaining - of(before.remaining) + of(after.remaining);
    }

    /// Whether nothing is left in it.
    #[cfg(test)]
    pub(super) fn is_blank(&self) -> bool {
        self.occupied == 0 && self.remaining == 0 && self.cells == Self::BLANK.cells
    }

    /// The peak; `more` is a request besides: what remains of it, its sequences, and what it uses.
    pub(super) fn peak_with(&self, more: Option<(u32, u32, u32)>) -> u64 {
        let (extra, more_sequences, more_used) = match more {
            Some((remaining, sequences, used)) => (bucket_of(remaining), sequences, used),
            None => (BUCKETS, 0, 0),
        };
        let mut left = self.occupied | if extra < BUCKETS { 1 << extra } else { 0 };
        let (mut sequences, mut used, mut peak) = (0_u64, 0_u64, 0_u64);
        while left != 0 {
            let bucket = left.ilog2() as usize;
            left &= !(1 << bucket);
            let cell = &self.cells[bucket];
            sequences += u64::from(cell.sequences);
            used += u64::from(cell.used);
            if bucket == extra {
                sequences += u64::from(more_sequences);
                used += u64::from(more_used);
            }
            peak = peak.max(u64::from(LONGEST[bucket]) * sequences + used);
        }
        peak
    }

    /// Steps until requests have ended that hold `tokens` by then.
    pub(super) fn steps_until_free(&self, tokens: u64) -> Option<u32> {
        let mut left = self.occupied;
        let mut free = 0;
        while left != 0 {
            let bucket = left.trailing_zeros() as usize;
            left &= left - 1;
            let cell = &self.cells[bucket];
            free += u64::from(cell.used) + u64::from(cell.sequences) * u64::from(LONGEST[bucket]);
            if tokens <= free {
                return Some(LONGEST[bucket]);
            }
        }
        None
    }
}
