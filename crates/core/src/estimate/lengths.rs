//! How long will an answer get, given how long it is already?
//!
//! Answers are counted by *class*: the model, the kind of request, and the power of two below the
//! most that the answer may have. What was seen of a class is a histogram that fades; beside it
//! stands a table of its quantiles, so that a draw is one look. A class that was hardly seen leans
//! on all answers of its model, and those, before there are any, on what answers are like in
//! general.
//!
//! A draw that was refuted, because the answer is longer already, is made again among the lengths
//! that are left: P(L | L > g).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::scale::{BUCKETS, LENGTH_MAX, LONGEST, bucket_of, shortest};

/// What kind of request it is, as a number: equal for requests whose answers are alike in length.
/// The path it came by, and whatever else the shell knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u64);

/// Answers that are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    model: u64,
    kind: Kind,
    /// The power of two below the most that an answer may have; 32 where nothing is said.
    limit_log2: u8,
}

impl Class {
    /// The class of a request for the model of that number, whose answers may have `limit` tokens.
    pub fn new(model: u64, kind: Kind, limit: Option<u32>) -> Self {
        let log2 = limit.map_or(u32::BITS, |limit| limit.max(1).ilog2());
        Self { model, kind, limit_log2: u8::try_from(log2).unwrap_or(u8::MAX) }
    }
}

/// Draws made for one answer.
pub const DRAWS: usize = 8;

/// Classes that are remembered, at most; the one that was seen the longest ago is forgotten first.
pub const CLASSES_MAX: usize = 1_024;

/// Models of which all answers are remembered together, at most.
const MODELS_MAX: usize = 1_024;

/// What one answer weighs in a histogram; halving it six times leaves something.
const WEIGHT: u32 = 64;

/// Answers in a histogram after which everything in it is halved.
const FADE_AFTER: u32 = 1_024;

/// Answers of its model that a class leans on, and answers in general that a model leans on.
const LEAN_CLASS: u64 = 16;
const LEAN_MODEL: u64 = 8;

/// Steps between the quantiles that are kept.
const STEPS: usize = 64;

/// One step between two quantiles, in fixed point.
const STEP: u64 = 1 << 16;

/// What was seen of answers' lengths.
#[derive(Debug, Default)]
pub struct Lengths {
    classes: BTreeMap<Class, Box<Histogram>>,
    models: BTreeMap<u64, Box<Histogram>>,
    notes: u64,
}

/// The lengths of one class, fading.
#[derive(Clone, Debug)]
struct Histogram {
    weights: [u32; BUCKETS],
    total: u64,
    /// The length below which so many 64ths of all answers are.
    quantiles: [u32; STEPS + 1],
    /// Answers until the table is made anew.
    stale_in: u32,
    noted_last: u64,
}

impl Lengths {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { classes: BTreeMap::new(), models: BTreeMap::new(), notes: 0 }
    }

    /// An answer of that class came to `length` tokens and was not cut short by the client.
    pub fn note(&mut self, class: Class, length: u32) {
        self.notes += 1;
        if !self.models.contains_key(&class.model) {
            if self.models.len() == MODELS_MAX {
                return;
            }
            self.models.insert(class.model, Box::new(Histogram::new(self.notes)));
        }
        let Some(model) = self.models.get_mut(&class.model) else { return };
        model.note(length, self.notes);
        if model.stale_in == 0 {
            model.tabulate((&GENERAL, GENERAL_TOTAL), LEAN_MODEL);
        }
        if !self.classes.contains_key(&class) {
            self.forget_one_if_full();
            self.classes.insert(class, Box::new(Histogram::new(self.notes)));
        }
        let (Some(own), Some(model)) =
            (self.classes.get_mut(&class), self.models.get(&class.model))
        else {
            return;
        };
        own.note(length, self.notes);
        if own.stale_in == 0 {
            own.tabulate((&model.weights, model.total), LEAN_CLASS);
        }
    }

    /// One draw of how long an answer of that class gets for each of eight worlds, one out of each
    /// eighth of what is likely; equal `dice` draw alike.
    pub fn draw(&self, class: Class, limit: Option<u32>, dice: u64) -> [u32; DRAWS] {
        let quantiles = self.quantiles(class);
        let most = limit.unwrap_or(LENGTH_MAX).clamp(1, LENGTH_MAX);
        // Which eighth a world gets, differs between requests: worlds must not agree.
        let (first, stride) = (dice & 7, dice >> 3 & 6 | 1);
        let mut noise = dice;
        let mut eighth = first;
        [(); DRAWS].map(|()| {
            noise = mixed(noise);
            let within = noise >> 48;
            let place = (eighth << 16 | within) * STEP * (STEPS as u64 / DRAWS as u64) >> 16;
            eighth = (eighth + stride) & 7;
            at(quantiles, place).clamp(1, most)
        })
    }

    /// A draw of how long an answer gets that has `length` tokens already.
    pub fn draw_beyond(&self, class: Class, limit: Option<u32>, length: u32, dice: u64) -> u32 {
        let most = limit.unwrap_or(LENGTH_MAX).clamp(1, LENGTH_MAX);
        let quantiles = self.quantiles(class);
        let noise = mixed(dice ^ u64::from(length)) >> 48;
        let whole = STEPS as u64 * STEP;
        let passed = place_of(quantiles, length);
        let drawn = if passed < whole {
            at(quantiles, passed + ((whole - passed) * noise >> 16))
        } else {
            // Longer than any that was seen: up to as long again.
            length.saturating_add(u32::try_from(u64::from(length) * noise >> 16).unwrap_or(0))
        };
        drawn.max(length.saturating_add(1)).min(most.max(length))
    }

    /// Mean and variance of the lengths of answers of that class, in tokens and their square.
    pub fn mean_and_variance(&self, class: Class) -> (u64, u64) {
        let quantiles = self.quantiles(class);
        let count = STEPS as u64;
        let middles =
            quantiles.windows(2).map(|pair| u64::midpoint(pair[0].into(), pair[1].into()));
        let (sum, squares) = middles.fold((0, 0), |(sum, squares): (u64, u64), middle| {
            (sum + middle, squares + middle * middle)
        });
        let mean = sum / count;
        (mean, (squares / count).saturating_sub(mean * mean))
    }

    /// Answers of that class that count, fading.
    pub fn seen(&self, class: Class) -> u64 {
        self.classes.get(&class).map_or(0, |own| own.total / u64::from(WEIGHT))
    }

    fn quantiles(&self, class: Class) -> &[u32; STEPS + 1] {
        let own = self.classes.get(&class).or_else(|| self.models.get(&class.model));
        own.map_or(&GENERAL_QUANTILES, |own| &own.quantiles)
    }

    fn forget_one_if_full(&mut self) {
        if self.classes.len() < CLASSES_MAX {
            return;
        }
        let oldest = self.classes.iter().min_by_key(|(_, own)| own.noted_last);
        if let Some(class) = oldest.map(|(class, _)| *class) {
            self.classes.remove(&class);
        }
    }
}

impl Histogram {
    const fn new(noted_last: u64) -> Self {
        let quantiles = [0; STEPS + 1];
        Self { weights: [0; BUCKETS], total: 0, quantiles, stale_in: 0, noted_last }
    }

    fn note(&mut self, length: u32, noted: u64) {
        self.weights[bucket_of(length)] += WEIGHT;
        self.total += u64::from(WEIGHT);
        self.noted_last = noted;
        self.stale_in = self.stale_in.saturating_sub(1);
        if u64::from(FADE_AFTER * WEIGHT) <= self.total {
            self.total = 0;
            for weight in &mut self.weights {
                *weight /= 2;
                self.total += u64::from(*weight);
            }
        }
    }

    /// Makes the table of quantiles, counting `lean` answers of `others` as well.
    fn tabulate(&mut self, (others, total): (&[u32; BUCKETS], u64), lean: u64) {
        // Every so many answers that the table is never more than a sixteenth behind.
        let answers = u32::try_from(self.total / u64::from(WEIGHT)).unwrap_or(u32::MAX);
        self.stale_in = (answers / 16).max(1);
        let lent = lean * u64::from(WEIGHT);
        let weight = |bucket: usize| {
            let other = u64::from(others[bucket]) * lent / total.max(1);
            (u64::from(self.weights[bucket]) << 8) + (other << 8)
        };
        let whole: u64 = (0..BUCKETS).map(weight).sum();
        let mut quantiles = [0; STEPS + 1];
        let (mut bucket, mut below) = (0, 0);
        for (step, quantile) in (0_u64..).zip(&mut quantiles) {
            let wanted = whole * step / STEPS as u64;
            while bucket + 1 < BUCKETS && below + weight(bucket) <= wanted {
                below += weight(bucket);
                bucket += 1;
            }
            // The last one ends at the last bucket that has any.
            if below == whole {
                *quantile = last_with(weight).map_or(0, |bucket| LONGEST[bucket]);
                continue;
            }
            let width = u64::from(LONGEST[bucket] - shortest(bucket)) + 1;
            let into = width * (wanted - below) / weight(bucket).max(1);
            *quantile = shortest(bucket) + u32::try_from(into).unwrap_or(0);
        }
        self.quantiles = quantiles;
    }
}

fn last_with(weight: impl Fn(usize) -> u64) -> Option<usize> {
    (0..BUCKETS).rev().find(|&bucket| weight(bucket) > 0)
}

/// The length at a place among the quantiles.
fn at(quantiles: &[u32; STEPS + 1], place: u64) -> u32 {
    let step = usize::try_from(place / STEP).unwrap_or(STEPS).min(STEPS - 1);
    let (low, high) = (quantiles[step], quantiles[step + 1]);
    let into = u64::from(high.saturating_sub(low)) * (place - step as u64 * STEP) / STEP;
    low + u32::try_from(into).unwrap_or(0)
}

/// The place of a length among the quantiles, the greatest if there are more.
fn place_of(quantiles: &[u32; STEPS + 1], length: u32) -> u64 {
    let above = quantiles.partition_point(|&quantile| quantile <= length);
    let Some(step) = above.checked_sub(1) else { return 0 };
    if step == STEPS {
        return STEPS as u64 * STEP;
    }
    let (low, high) = (quantiles[step], quantiles[step + 1]);
    let into = u64::from(length - low) * STEP / u64::from((high - low).max(1));
    step as u64 * STEP + into
}

/// What answers are like before any was seen: as many between 16 and 32 tokens as between 512 and
/// 1,024, and none beyond.
const GENERAL: [u32; BUCKETS] = general();
const GENERAL_TOTAL: u64 = 6 * 64;
const GENERAL_QUANTILES: [u32; STEPS + 1] = general_quantiles();

const fn general() -> [u32; BUCKETS] {
    let mut weights = [0; BUCKETS];
    let mut bucket = 2;
    while bucket < 40 {
        weights[bucket] = match bucket {
            2..4 => 32,
            4..8 => 16,
            _ => 8,
        };
        bucket += 1;
    }
    weights
}

/// An octave is 64 / 6 steps.
const fn general_quantiles() -> [u32; STEPS + 1] {
    let mut quantiles = [0; STEPS + 1];
    let mut step: usize = 0;
    let mut place: u32 = 0;
    while step <= STEPS {
        let (octave, within) = (place * 6 / 64, place * 6 % 64);
        quantiles[step] = (16 << octave) + ((16 << octave) * within) / 64;
        step += 1;
        place += 1;
    }
    quantiles
}

/// Mixes a number so that all of its bits matter (splitmix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
