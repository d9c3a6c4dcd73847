//! Memory bandwidth: bytes a second that all threads together read.
//!
//! Each thread sums its part of a block much larger than the caches. Decoding one token reads every
//! weight once, so this bounds its speed.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::thread;

use overdraft_telemetry::Clock;

/// Words in the block: 512 MiB.
const WORDS: usize = 64 << 20;
/// Readings; the best counts.
const READINGS: usize = 3;
/// Sums that a thread keeps at once, so that additions never wait for each other.
const LANES: usize = 32;

/// Bytes per second.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn measure(threads: NonZeroUsize, clock: &Clock) -> f64 {
    // Written once, or the pages would all be the same page of zeros.
    let block: Vec<u64> = (0..WORDS as u64).collect();
    let mut best: f64 = 0.0;
    for _ in 0..READINGS {
        let start = clock.now();
        thread::scope(|scope| {
            for part in block.chunks(WORDS.div_ceil(threads.get())) {
                scope.spawn(|| black_box(sum(part)));
            }
        });
        let seconds = clock.now().since(start).get() as f64 / 1e6;
        best = best.max((WORDS * size_of::<u64>()) as f64 / seconds);
    }
    best
}

fn sum(part: &[u64]) -> u64 {
    let mut sums = [0_u64; LANES];
    let (groups, rest) = part.as_chunks::<LANES>();
    for group in groups {
        for (sum, word) in sums.iter_mut().zip(group) {
            *sum = sum.wrapping_add(*word);
        }
    }
    rest.iter().chain(&sums).fold(0, |total, word| total.wrapping_add(*word))
}
