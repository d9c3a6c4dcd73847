//! Moving averages (EWMA) of latency: how long draft and target take by kind of request.
//!
//! Each mean fades: its last 64 samples carry most of the weight, so it follows a pool that gets
//! slower within a few dozen requests. The mean of a kind is shrunk towards the mean of all
//! requests of that size, and that towards the mean of all requests (partial pooling). So a kind
//! with three samples borrows from the others. `docs/design/cascade.md#r6`.

use alloc::collections::BTreeMap;

use overdraft_units::Micros;

use super::class::{CLASSES_MAX, Class, Delivery, Traits};

/// Memory of a mean, in samples; older ones fade.
pub(super) const MEMORY: u32 = 64;
/// Memory of the target's times, against which drafts are compared: if these fluctuated, drafts
/// would be preferred just when the target's time is overestimated.
pub(super) const MEMORY_LONG: u32 = 256;
/// Memory of the failure rate, which is short so that a pool's recovery shows soon.
pub(super) const MEMORY_SHORT: u32 = 16;
/// Minimum samples before a mean is used.
const LEARNT_MIN: u32 = 16;
/// Weight of the wider group in the narrower one's mean, in samples.
const POOLED: i128 = 16;

/// A moving average, and the mean deviation of samples from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mean {
    value: i64,
    spread: i64,
    samples: u32,
}

/// What is known of requests of one kind. Times are in microseconds, shares in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// Until the target's first token, where that is seen.
    pub(super) target_first: Mean,
    /// Until the target's answer was whole.
    pub(super) target_end: Mean,
    /// Until a draft came to its verdict.
    pub(super) verdict: Mean,
    /// Until a draft's answer was whole.
    pub(super) draft_end: Mean,
    /// The share of drafts that are given, of those that came to a verdict.
    pub(super) given: Mean,
}

/// One of the means of a cell.
pub(super) type Pick = fn(&Cell) -> &Mean;

/// What is known of requests of every kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paces {
    all: [Cell; DELIVERIES],
    /// At most so many as there are sizes and deliveries.
    sizes: BTreeMap<(usize, Delivery), Cell>,
    kinds: BTreeMap<(Class, Delivery), Cell>,
}

const DELIVERIES: usize = 2;

impl Mean {
    /// Takes note of a sample, and remembers about so many.
    pub(super) fn note(&mut self, sample: i64, memory: u32) {
        self.samples = (self.samples + 1).min(memory);
        let weight = i64::from(self.samples);
        let off = sample - self.value;
        // Half of its weight is added, or small differences would never move it.
        self.value += (off + off.signum() * weight / 2) / weight;
        if 1 < self.samples {
            self.spread += (off.abs() - self.spread) / weight;
        }
    }
}

impl Mean {
    /// What samples are on average, once that is learnt.
    pub(super) fn known(&self) -> Option<i64> {
        (LEARNT_MIN <= self.samples).then_some(self.value)
    }
}

impl Paces {
    /// Takes note of a sample of such a request, in every circle that it belongs to.
    pub(super) fn note(
        &mut self,
        traits: &Traits,
        sample: i64,
        memory: u32,
        pick: fn(&mut Cell) -> &mut Mean,
    ) {
        let at = traits.delivery as usize;
        pick(&mut self.all[at]).note(sample, memory);
        let size = (traits.size(), traits.delivery);
        pick(self.sizes.entry(size).or_default()).note(sample, memory);
        let kind = (traits.class(), traits.delivery);
        let has_room = self.kinds.len() < CLASSES_MAX * DELIVERIES;
        if has_room || self.kinds.contains_key(&kind) {
            pick(self.kinds.entry(kind).or_default()).note(sample, memory);
        }
    }

    /// The mean for such a request, and how far samples are from it; nothing before it is learnt.
    pub(super) fn of(&self, traits: &Traits, pick: Pick) -> Option<(i64, i64)> {
        let at = traits.delivery as usize;
        let all = pick(&self.all[at]);
        if all.samples < LEARNT_MIN {
            return None;
        }
        let size = self.sizes.get(&(traits.size(), traits.delivery)).map(pick);
        let kind = self.kinds.get(&(traits.class(), traits.delivery)).map(pick);
        let wide = (all.value, all.spread);
        let narrower = size.map_or(wide, |size| shrunk(size, all.value, all.spread));
        let (value, spread) = narrower;
        Some(kind.map_or(narrower, |kind| shrunk(kind, value, spread)))
    }

    /// How far the mean over all requests may be off: its standard error, of which it is wrong one time in three.
    pub(super) fn error_of_all(&self, delivery: Delivery, pick: Pick) -> i64 {
        let all = pick(&self.all[delivery as usize]);
        // The standard deviation is about 5/4 of the mean deviation.
        all.spread * 5 / 4 / i64::from(all.samples.max(1).isqrt())
    }

    /// The mean over all requests that are told so.
    pub(super) fn of_all(&self, delivery: Delivery, pick: Pick) -> Option<i64> {
        pick(&self.all[delivery as usize]).known()
    }
}

/// A mean with what a wider circle knows.
fn shrunk(own: &Mean, value: i64, spread: i64) -> (i64, i64) {
    let samples = i128::from(own.samples);
    let mix = |own: i64, wide: i64| {
        let sum = samples * i128::from(own) + POOLED * i128::from(wide);
        i64::try_from(sum / (samples + POOLED)).unwrap_or(i64::MAX)
    };
    (mix(own.value, value), mix(own.spread, spread))
}

/// A span as a sample: an hour at most, so that sums stay far from any limit.
pub(super) fn sample(span: Micros) -> i64 {
    const HOUR: u64 = 3_600_000_000;
    i64::try_from(span.get().min(HOUR)).unwrap_or(i64::MAX)
}
