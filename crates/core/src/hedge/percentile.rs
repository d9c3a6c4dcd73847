//! First-token percentile: how late a first token usually is at most, by model and prompt size class.
//!
//! A class is a power of two of the tokens that are not expected in the cache. Each has a histogram whose buckets
//! are quarters of an octave; old counts fade, so that a fleet that changed is believed after a few hundred requests.

use alloc::collections::BTreeMap;

use overdraft_units::{Micros, Tokens};

/// Models times size classes that are learnt; requests of others are not hedged.
const CLASSES_MAX: usize = 1_024;

/// First tokens of a class that must have been seen: a twentieth of fewer is none.
const SEEN_MIN: u32 = 20;

/// Counts are halved when there are so many.
const FADE_AT: u32 = 512;

/// The percentile, in hundredths.
const PERCENTILE: u32 = 95;

/// Times up to half a millisecond are one bucket.
const SHORTEST_LOG: u32 = 9;

/// Twenty-two octaves from there: half an hour.
const BUCKETS: usize = 88;

/// Buckets to an octave, as a power of two.
const QUARTERS_LOG: u32 = 2;

/// A model as a number, and a size class.
pub(super) type Class = (u64, u8);

/// The class of a request for `model` with so many tokens to compute.
pub(super) fn class(model: u64, prefill: Tokens) -> Class {
    let log = prefill.get().max(1).ilog2();
    (model, u8::try_from(log).unwrap_or(u8::MAX))
}

#[derive(Clone, Debug)]
struct Histogram {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Histogram {
    const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }

    fn note(&mut self, took: Micros) {
        if FADE_AT <= self.total {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        self.counts[bucket(took)] += 1;
        self.total += 1;
    }

    fn percentile(&self) -> Option<Micros> {
        if self.total < SEEN_MIN {
            return None;
        }
        let rank = (self.total * PERCENTILE).div_ceil(100);
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

/// What is usual, by class.
#[derive(Debug, Default)]
pub(super) struct Percentiles(BTreeMap<Class, Histogram>);

impl Percentiles {
    /// A first token took so long, or at least so long.
    pub(super) fn note(&mut self, class: Class, took: Micros) {
        if self.0.len() < CLASSES_MAX || self.0.contains_key(&class) {
            self.0.entry(class).or_insert_with(Histogram::new).note(took);
        }
    }

    /// What nineteen of twenty take at most; `None` while too few were seen.
    pub(super) fn usual(&self, class: Class) -> Option<Micros> {
        self.0.get(&class).and_then(Histogram::percentile)
    }
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
    fn nineteen_of_twenty_are_faster() {
        let (mut usual, class) = (Percentiles::default(), class(1, Tokens::new(100)));
        for milliseconds in 1..=100 {
            usual.note(class, Micros::new(milliseconds * 1_000));
        }
        let found = usual.usual(class).unwrap().get();
        assert!((95_000..120_000).contains(&found), "{found}");
    }

    #[test]
    fn a_fleet_that_became_slower_is_believed() {
        let (mut usual, class) = (Percentiles::default(), class(1, Tokens::new(100)));
        (0..2_000).for_each(|_| usual.note(class, Micros::new(10_000)));
        assert!(usual.usual(class).unwrap() < Micros::new(13_000));
        (0..60).for_each(|_| usual.note(class, Micros::new(500_000)));
        assert!(Micros::new(500_000) <= usual.usual(class).unwrap());
    }

    #[test]
    fn classes_are_bounded() {
        let mut usual = Percentiles::default();
        (0..2_000).for_each(|model| usual.note(class(model, Tokens::new(8)), Micros::new(1)));
        assert_eq!(usual.0.len(), CLASSES_MAX);
    }
}
