//! Logarithmic buckets of token lengths: eight per octave.
//!
//! Lengths in one bucket differ by less than an eighth, and below 64 tokens by less than eight. Up
//! to a million tokens that makes 120 buckets.

/// Buckets.
pub(crate) const BUCKETS: usize = 120;

/// The longest length that is told apart from longer ones.
pub(crate) const LENGTH_MAX: u32 = (1 << 20) - 1;

/// Lengths up to here are told apart by eights.
const EVEN_BELOW_LOG2: u32 = 6;

/// Buckets to an octave, as a power of two.
const SPLIT_LOG2: u32 = 3;

/// The bucket of a length.
pub(crate) const fn bucket_of(length: u32) -> usize {
    let length = if LENGTH_MAX < length { LENGTH_MAX } else { length };
    if length < 1 << EVEN_BELOW_LOG2 {
        return (length >> SPLIT_LOG2) as usize;
    }
    let octave = length.ilog2();
    let within = (length >> (octave - SPLIT_LOG2)) & ((1 << SPLIT_LOG2) - 1);
    (((octave - EVEN_BELOW_LOG2 + 1) << SPLIT_LOG2) + within) as usize
}

/// The longest length of each bucket.
pub(crate) const LONGEST: [u32; BUCKETS] = longest();

const fn longest() -> [u32; BUCKETS] {
    let mut longest = [0; BUCKETS];
    let mut bucket = 0;
    let mut place: u32 = 0;
    while bucket < BUCKETS {
        let octave = place >> SPLIT_LOG2;
        let within = place & ((1 << SPLIT_LOG2) - 1);
        longest[bucket] = if octave == 0 {
            ((within + 1) << SPLIT_LOG2) - 1
        } else {
            let shift = octave + EVEN_BELOW_LOG2 - 1 - SPLIT_LOG2;
            (((1 << SPLIT_LOG2) + within + 1) << shift) - 1
        };
        bucket += 1;
        place += 1;
    }
    longest
}

/// The shortest length of a bucket.
pub(crate) fn shortest(bucket: usize) -> u32 {
    match bucket.checked_sub(1) {
        None => 0,
        Some(before) => LONGEST[before.min(BUCKETS - 1)] + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_lies_in_its_bucket_and_buckets_are_narrow() {
        for length in (0..5_000).chain((0..1_000).map(|step| 5_000 + step * 1_044)) {
            let bucket = bucket_of(length);
            let (shortest, longest) = (shortest(bucket), LONGEST[bucket]);
            assert!((shortest..=longest).contains(&length), "{length} in {shortest}..={longest}");
            assert!(longest - shortest < 8 || longest - shortest < shortest / 8, "{bucket}");
        }
        assert_eq!(bucket_of(u32::MAX), BUCKETS - 1);
        assert_eq!(LONGEST[BUCKETS - 1], LENGTH_MAX);
    }
}
