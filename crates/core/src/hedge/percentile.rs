//! First-token percentile: how late a first token usually is at most, by model and prompt size class.
//!
//! A class is a power of two of the tokens that are not expected in the cache.

use alloc::collections::BTreeMap;

use overdraft_units::{Micros, Tokens};

use crate::estimate::Histogram;

/// Models times size classes that are learnt; requests of others are not hedged.
const CLASSES_MAX: usize = 1_024;

/// The percentile, in hundredths.
const PERCENTILE: u32 = 95;

/// A model as a number, and a size class.
pub(super) type Class = (u64, u8);

/// The class of a request for `model` with so many tokens to compute.
pub(super) fn class(model: u64, prefill: Tokens) -> Class {
    let log = prefill.get().max(1).ilog2();
    (model, u8::try_from(log).unwrap_or(u8::MAX))
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
        self.0.get(&class).and_then(|seen| seen.percentile(PERCENTILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
