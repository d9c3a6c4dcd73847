//! Percentile of times, by a histogram that fades.
//!
//! Buckets are quarters of an octave. Old counts fade, so that what changed is believed after a few hundred
//! observations.

use overdraft_units::Micros;

/// Counts are halved when there are so many.
const FADE_AT: u32 = 512;

/// Times up to half a millisecond are one bucket.
const SHORTEST_LOG: u32 = 9;

/// Twenty-two octaves from there: half an hour.
const BUCKETS: usize = 88;

/// Buckets to an octave, as a power of two.
const QUARTERS_LOG: u32 = 2;

/// Times that were observed.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }

    /// Something took so long.
    pub(crate) fn note(&mut self, took: Micros) {
        if FADE_AT <= self.total {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        self.counts[bucket(took)] += 1;
        self.total += 1;
    }

    /// What so many of a hundred take at most; `None` while the others are not one observation.
    pub(crate) fn percentile(&self, percentile: u32) -> Option<Micros> {
        if self.total * (100 - percentile) < 100 {
            return None;
        }
        let rank = (self.total * percentile).div_ceil(100);
        let mut below = 0;
        let is_it = |count: &u32| {
            below += count;
            rank <= below
        };
        self.counts.iter().position(is_it).map(upper_bound)
    }
}

fn bucket(took: Micros) -> usize {
    let micros = took.get().max(1 << SHORTEST_LOG);
    let octave = micros.ilog2();
    let quarter = (micros >> (octave - QUARTERS_LOG)) & ((1 << QUARTERS_LOG) - 1);
    let whole = u64::from(octave - SHORTEST_LOG) << QUARTERS_LOG;
    usize::try_from(whole + quarter).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> Micros {
    let bucket = u64::try_from(bucket).unwrap_or(0);
    let quarters = (1 << QUARTERS_LOG) + (bucket & ((1 << QUARTERS_LOG) - 1)) + 1;
    let octave = (bucket >> QUARTERS_LOG) + u64::from(SHORTEST_LOG - QUARTERS_LOG);
    Micros::new(quarters << octave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_below_its_upper_bound() {
        for micros in (1..40).map(|shift| 3_u64 << shift).filter(|micros| *micros < 1 << 30) {
            let bound = upper_bound(bucket(Micros::new(micros))).get();
            assert!(micros < bound, "{micros} < {bound}");
            assert!(bound <= (micros * 5 / 4).max(640), "{micros} {bound}");
        }
    }

    #[test]
    fn a_percentile_is_known_once_the_rest_is_an_observation() {
        let mut seen = Histogram::new();
        (0..19).for_each(|_| seen.note(Micros::new(1_000)));
        assert_eq!(seen.percentile(95), None);
        seen.note(Micros::new(1_000_000));
        assert!(seen.percentile(95).unwrap() < Micros::new(1_300));
        assert_eq!(seen.percentile(99), None);
        (0..80).for_each(|_| seen.note(Micros::new(1_000_000)));
        assert!(Micros::new(1_000_000) < seen.percentile(99).unwrap());
    }
}
