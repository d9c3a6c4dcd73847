//! Sampled length scenario: the memory peak of one worker under one draw of output lengths.
//!
//! Sorting at every decision is too slow. Requests are kept in narrow buckets by what remains of
//! them (`estimate/scale.rs`). Taking everything in a bucket for the longest it can hold adds at
//! most an eighth to what is still to come, and never takes anything away. All worlds
//! are walked through together: what a bucket holds of each of them stands in one cache line.

use alloc::boxed::Box;

use super::forecast::WORLDS;
use crate::estimate::{BUCKETS, LONGEST, bucket_of};

/// The requests of one worker in all worlds.
#[derive(Clone, Debug)]
pub(super) struct Worlds {
    /// Which buckets have any in some world, a bit each.
    occupied: u128,
    rows: [Row; BUCKETS],
    /// What remains, of all, in each world.
    remaining: [u64; WORLDS],
}

/// Requests of which about as much remains, in each world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Row {
    /// At least one for each request.
    sequences: [u32; WORLDS],
    /// Cannot overflow: requests are as few and use as little as `forecast.rs` lets them.
    used: [u32; WORLDS],
}

/// What remains of each answer to a request in each world, and what the request uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remains {
    pub(super) remaining: [u32; WORLDS],
    pub(super) sequences: u32,
    pub(super) used: u32,
}

impl Row {
    const BLANK: Self = Self { sequences: [0; WORLDS], used: [0; WORLDS] };
}

impl Worlds {
    pub(super) fn new() -> Box<Self> {
        let rows = [Row::BLANK; BUCKETS];
        Box::new(Self { occupied: 0, rows, remaining: [0; WORLDS] })
    }

    /// What remains of all requests, in each world.
    pub(super) const fn remaining(&self) -> &[u64; WORLDS] {
        &self.remaining
    }

    pub(super) fn put(&mut self, request: &Remains) {
        for world in 0..WORLDS {
            self.put_in(world, request);
        }
    }

    pub(super) fn take(&mut self, request: &Remains) {
        for world in 0..WORLDS {
            self.take_from(world, request);
        }
    }

    /// A request was the first, and is the second, with as many answers.
    pub(super) fn change(&mut self, before: &Remains, after: &Remains) {
        for world in 0..WORLDS {
            let bucket = bucket_of(after.remaining[world]);
            if bucket_of(before.remaining[world]) != bucket {
                self.take_from(world, before);
                self.put_in(world, after);
                continue;
            }
            let used = &mut self.rows[bucket].used[world];
            *used = *used - before.used + after.used;
            let remaining = &mut self.remaining[world];
            *remaining = *remaining - before.whole(world) + after.whole(world);
        }
    }

    fn put_in(&mut self, world: usize, request: &Remains) {
        let bucket = bucket_of(request.remaining[world]);
        let row = &mut self.rows[bucket];
        row.sequences[world] += request.sequences;
        row.used[world] += request.used;
        self.occupied |= 1 << bucket;
        self.remaining[world] += request.whole(world);
    }

    fn take_from(&mut self, world: usize, request: &Remains) {
        let bucket = bucket_of(request.remaining[world]);
        let row = &mut self.rows[bucket];
        row.sequences[world] -= request.sequences;
        row.used[world] -= request.used;
        if row.sequences == [0; WORLDS] {
            self.occupied &= !(1 << bucket);
        }
        self.remaining[world] -= request.whole(world);
    }

    /// Whether nothing is left in any.
    #[cfg(test)]
    pub(super) fn is_blank(&self) -> bool {
        self.occupied == 0
            && self.remaining == [0; WORLDS]
            && self.rows.iter().all(|row| *row == Row::BLANK)
    }

    /// The peak in each world; `more` is a request besides.
    pub(super) fn peaks_with(&self, more: Option<&Remains>) -> [u64; WORLDS] {
        let mut left = self.occupied;
        let (mut extra, mut more_sequences, mut more_used) = ([u32::MAX; WORLDS], 0, 0);
        if let Some(more) = more {
            (more_sequences, more_used) = (more.sequences, more.used);
            for (extra, &remaining) in extra.iter_mut().zip(&more.remaining) {
                let bucket = bucket_of(remaining);
                left |= 1 << bucket;
                *extra = u32::try_from(bucket).unwrap_or(u32::MAX);
            }
        }
        let (mut sequences, mut used, mut peaks) = ([0_u32; WORLDS], [0_u32; WORLDS], [0; WORLDS]);
        // Where a world has nothing in a bucket, that bucket's end is no higher than the one before it.
        while left != 0 {
            let bucket = left.ilog2();
            left &= !(1 << bucket);
            let row = &self.rows[bucket as usize];
            let longest = u64::from(LONGEST[bucket as usize]);
            for world in 0..WORLDS {
                let is_extra = extra[world] == bucket;
                sequences[world] +=
                    row.sequences[world] + if is_extra { more_sequences } else { 0 };
                used[world] += row.used[world] + if is_extra { more_used } else { 0 };
                let peak = longest * u64::from(sequences[world]) + u64::from(used[world]);
                peaks[world] = peak.max(peaks[world]);
            }
        }
        peaks
    }

    /// Steps until requests have ended that hold `tokens` by then, in each world; `None` where all of them
    /// do not.
    pub(super) fn steps_until_free(&self, tokens: u64) -> [Option<u32>; WORLDS] {
        let (mut steps, mut free) = ([None; WORLDS], [0_u64; WORLDS]);
        let (mut left, mut open, mut is_reached) = (self.occupied, WORLDS, false);
        while left != 0 && 0 < open {
            let bucket = left.trailing_zeros() as usize;
            left &= left - 1;
            let (row, longest) = (&self.rows[bucket], LONGEST[bucket]);
            for (world, free) in free.iter_mut().enumerate() {
                let ended = u64::from(row.sequences[world]) * u64::from(longest);
                *free += u64::from(row.used[world]) + ended;
                is_reached |= tokens <= *free;
            }
            // Most buckets only add up, all worlds at a time.
            if !is_reached {
                continue;
            }
            for world in 0..WORLDS {
                let is_here = tokens <= free[world] && 0 < row.sequences[world];
                if is_here && steps[world].is_none() {
                    steps[world] = Some(longest);
                    open -= 1;
                }
            }
        }
        steps
    }
}

impl Remains {
    /// What remains of all its answers in one world.
    fn whole(&self, world: usize) -> u64 {
        u64::from(self.remaining[world]) * u64::from(self.sequences)
    }
}
