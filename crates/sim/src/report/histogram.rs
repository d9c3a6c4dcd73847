//! Histogram of durations: three significant digits in bounded memory.
//!
//! Buckets are of equal width within a factor of two: 1,024 of them to each, so a value is off by less than
//! a thousandth. What is longer than an hour counts as an hour.

use crate::float_conversion::{float, length, whole};

/// Buckets to a factor of two, as a power of two.
const DIGITS: u32 = 10;

/// An hour in microseconds.
const LONGEST: u64 = 3_600_000_000;

/// Counts by value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// Grows to the largest value seen.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
}

impl Histogram {
    /// Adds a value so many times.
    pub(crate) fn add_times(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let value = value.min(LONGEST);
        let place = place(value);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += times;
        self.count += times;
        self.sum += value * times;
    }

    /// Takes in all that another has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, count) in self.counts.iter_mut().zip(&other.counts) {
            *own += count;
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All values together.
    #[cfg(test)]
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    pub(crate) fn mean(&self) -> f64 {
        float(self.sum) / float(self.count.max(1))
    }

    /// Standard deviation.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |(value, count): (f64, u64)| (value - mean).powi(2) * float(count);
        (self.buckets().map(square).sum::<f64>() / float(self.count.max(1))).sqrt()
    }

    /// Between the two nearest of the values in their order, as numpy does by default.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.count.saturating_sub(1);
        let place = share * float(last);
        let below = whole(place.floor());
        let (low, high) = (self.ranked(below), self.ranked(below.saturating_add(1).min(last)));
        low + (high - low) * (place - place.floor())
    }

    /// The value that so many others stand before in their order.
    fn ranked(&self, before: u64) -> f64 {
        let mut seen = 0;
        let found = self.buckets().find(|(_, count)| {
            seen += count;
            before < seen
        });
        found.map_or(0.0, |(value, _)| value)
    }

    /// Values in the middle of buckets that are not empty, and how often they came.
    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| 0 < **count);
        counted.map(|(place, count)| (middle(length(place)), *count))
    }
}

/// The bucket of a value: itself while it is small, then its leading bits.
fn place(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(DIGITS + 1);
    let place = (u64::from(shift) << DIGITS) + (value >> shift);
    usize::try_from(place).unwrap_or(usize::MAX)
}

fn middle(place: u64) -> f64 {
    let shift = (place >> DIGITS).saturating_sub(1);
    let lowest = (place - (shift << DIGITS)) << shift;
    float(lowest) + (float(1 << shift) - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_kept_to_three_digits() {
        for value in (0..22).flat_map(|power| [(1 << power) - 1, 1 << power, (3 << power) + 7]) {
            let found = middle(length(place(value)));
            let off = (found - float(value)).abs();
            assert!(off <= float(value) / 1_000.0, "{value} is told as {found}");
        }
        let places: Vec<usize> = (0..100_000).map(place).collect();
        assert!(places.is_sorted(), "larger values have later places");
    }

    #[test]
    fn shares_mean_and_deviation_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        for value in 1..=1_000 {
            histogram.add_times(value, 1);
        }
        histogram.add_times(u64::MAX, 1);
        assert!((histogram.quantile(0.5) - 501.0).abs() < 1.0);
        assert!((histogram.quantile(1.0) / float(LONGEST) - 1.0).abs() < 1e-3);
        let mut few = Histogram::default();
        for value in [10, 20, 20, 70] {
            few.add_times(value, 1);
        }
        for (share, value) in [(0.0, 10.0), (0.5, 20.0), (0.9, 55.0), (1.0, 70.0)] {
            let found = few.quantile(share);
            assert!((found - value).abs() < 1e-9, "{share}: {found}, and not {value}");
        }
        let mut even = Histogram::default();
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            even.add_times(value, 1);
        }
        let (mut merged, mut other) = (Histogram::default(), Histogram::default());
        merged.add_times(2, 1);
        for value in [4, 4, 4, 5, 5, 7, 9] {
            other.add_times(value, 1);
        }
        merged.merge(&other);
        assert_eq!(merged, even);
        assert!((even.mean() - 5.0).abs() < 1e-9 && (even.deviation() - 2.0).abs() < 1e-9);
    }
}
