//! Output length prediction: a survival estimate (Kaplan–Meier) from the answers seen so far.
//!
//! Answers are counted by *class*: the model, the kind of request, and the power of two below the
//! most that the answer may have. A class has a life table that fades: of the answers that reached
//! a bucket, how many ended there and how many went on. So answers in flight count for the length
//! they have reached already (censored samples; Kaplan and Meier 1958); counting only answers that
//! have ended would be biased to short ones, since they are the first to end. A table of quantiles
//! makes a sample one look-up. A class with few samples borrows from all answers of its model, and
//! a model without samples from a prior.
//!
//! As an answer grows, its lengths are sampled again among those that are left, P(L | L > g), with what is
//! known by then.
//!
//! How answers differ is chance, and over many of them chance evens out. What is not known of their
//! class does not: lengths that few answers have reached yet are too long, or too short, for all of
//! them alike. So beyond the length that [`KNOWN_FROM`] answers have reached, all answers of a class
//! are sampled from the same eighth of the distribution in a world.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use overdraft_units::split_mix;

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

    /// The eighth from which all its answers are sampled in the first world, as far as too few are known. It is
    /// another one for each class, because what is not known of one says nothing of another.
    fn common_eighth(self) -> u64 {
        split_mix(self.model ^ self.kind.0 ^ u64::from(self.limit_log2)) & 7
    }
}

/// Draws made for one answer.
pub const DRAWS: usize = 8;

/// Classes that are remembered, at most; the one that was seen the longest ago is forgotten first.
pub const CLASSES_MAX: usize = 1_024;

/// Models of which all answers are remembered together, at most.
const MODELS_MAX: usize = 1_024;

/// What one answer weighs in a life table; halving it six times leaves something.
const WEIGHT: u32 = 64;

/// Answers in a life table after which everything in it is halved.
const FADE_AFTER: u32 = 1_024;

/// Answers of its model that a class leans on, and answers in general that a model leans on.
const LEAN_CLASS: u64 = 16;
const LEAN_MODEL: u64 = 8;

/// Answers that must have reached a length before it counts as known how many end there.
const KNOWN_FROM: u32 = 16;

/// Buckets to a doubling.
const OCTAVE: usize = 8;

/// Steps between the quantiles that are kept.
const STEPS: usize = 64;
const STEPS_WIDE: u64 = 64;

/// One step between two quantiles, in fixed point.
const STEP: u64 = 1 << 16;

/// The place of the greatest quantile.
const PLACE_MAX: u64 = STEPS_WIDE * STEP;

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
    /// Answers that ended in each bucket, and that went on beyond it.
    ended: [u32; BUCKETS],
    survived: [u32; BUCKETS],
    /// The most that came to any bucket.
    come: u32,
    /// Of all answers, those that should end in each bucket; they add up to [`WHOLE`].
    shares: [u32; BUCKETS],
    /// The length below which so many 64ths of all answers are.
    quantiles: [u32; STEPS + 1],
    /// The length that [`KNOWN_FROM`] answers have reached; those of its model count while they outweigh its own.
    known_to: u32,
    /// Its place among the quantiles.
    known_place: u64,
    /// Answers until the tables are made anew.
    stale_in: u32,
    noted_last: u64,
}

/// What a life table borrows while it has few answers.
#[derive(Clone, Copy, Debug)]
struct Lent<'a> {
    shares: &'a [u32; BUCKETS],
    /// What it counts as, in answers.
    answers: u64,
    known_to: u32,
}

/// All answers, as a sum of shares.
const WHOLE: u64 = 1 << 24;

impl Lengths {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { classes: BTreeMap::new(), models: BTreeMap::new(), notes: 0 }
    }

    /// An answer of that class went on from `before` tokens to `length`, and goes on.
    pub fn note_growth(&mut self, class: Class, before: u32, length: u32) {
        // What stays within a bucket shows nothing.
        if bucket_of(before) < bucket_of(length) {
            self.note(class, |own| own.grew(before, length));
        }
    }

    /// An answer of that class went on from `before` tokens to `length`, and ended with it.
    pub fn note_end(&mut self, class: Class, before: u32, length: u32) {
        self.note(class, |own| {
            own.grew(before, length);
            own.end(length);
        });
    }

    fn note(&mut self, class: Class, notes: impl Fn(&mut Histogram)) {
        self.notes += 1;
        if !self.models.contains_key(&class.model) {
            if self.models.len() == MODELS_MAX {
                return;
            }
            self.models.insert(class.model, Box::new(Histogram::new()));
        }
        let Some(model) = self.models.get_mut(&class.model) else { return };
        model.noted(&notes, self.notes, Lent::GENERAL);
        if !self.classes.contains_key(&class) {
            self.forget_one_if_full();
            self.classes.insert(class, Box::new(Histogram::new()));
        }
        let lent = self.models.get(&class.model).map_or(Lent::GENERAL, |model| model.lent());
        if let Some(own) = self.classes.get_mut(&class) {
            own.noted(&notes, self.notes, lent);
        }
    }

    /// How long an answer of that class gets that has `length` tokens already, for each of eight worlds: one draw
    /// out of each eighth of what is likely. Equal `dice` draw from the same places of what is left, so the draws of
    /// one answer change with what is known and not by chance.
    pub fn draw(&self, class: Class, limit: Option<u32>, length: u32, dice: u64) -> [u32; DRAWS] {
        let (quantiles, known) = self.table(class);
        let most = limit.unwrap_or(LENGTH_MAX).clamp(1, LENGTH_MAX).max(length);
        let passed = if length == 0 { 0 } else { place_of(quantiles, length) };
        // Which eighth a world gets, differs between requests: worlds must not agree.
        let mut noise = split_mix(dice);
        let (first, stride) = (noise & 7, ((noise >> 3) & 6) | 1);
        let (mut eighth, mut common) = (first, class.common_eighth());
        [(); DRAWS].map(|()| {
            noise = split_mix(noise);
            // Two draws from separate bits: that a place is beyond the known says something of the first.
            let (within, beyond) = (noise % STEP, (noise >> 32) % STEP);
            let mut place = place_in(passed, eighth, within);
            if known < place {
                place = place_in(known.max(passed), common, beyond);
            }
            let drawn = if passed < PLACE_MAX {
                at(quantiles, place)
            } else {
                // Longer than any that was seen: up to as long again.
                let more = u64::from(length) * (common * STEP + beyond) / (8 * STEP);
                length.saturating_add(u32::try_from(more).unwrap_or(0))
            };
            eighth = (eighth + stride) & 7;
            common = (common + 1) & 7;
            drawn.max(length.saturating_add(1)).min(most)
        })
    }

    /// Answers of that class that count, fading.
    pub fn seen(&self, class: Class) -> u64 {
        self.classes.get(&class).map_or(0, |own| own.answers())
    }

    /// The quantiles of a class, and the place among them up to which they are known.
    fn table(&self, class: Class) -> (&[u32; STEPS + 1], u64) {
        let own = self.classes.get(&class).or_else(|| self.models.get(&class.model));
        own.map_or((&GENERAL_QUANTILES, 0), |own| (&own.quantiles, own.known_place))
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

impl Lent<'_> {
    /// What is taken of answers in general.
    const GENERAL: Self = Self { shares: &GENERAL, answers: LEAN_MODEL, known_to: 0 };
}

impl Histogram {
    const fn new() -> Self {
        Self {
            ended: [0; BUCKETS],
            survived: [0; BUCKETS],
            come: 0,
            shares: [0; BUCKETS],
            quantiles: [0; STEPS + 1],
            known_to: 0,
            known_place: 0,
            stale_in: 0,
            noted_last: 0,
        }
    }

    /// What a class of this model borrows.
    const fn lent(&self) -> Lent<'_> {
        Lent { shares: &self.shares, answers: LEAN_CLASS, known_to: self.known_to }
    }

    fn noted(&mut self, notes: &impl Fn(&mut Self), noted: u64, lent: Lent<'_>) {
        notes(self);
        self.noted_last = noted;
        if u64::from(FADE_AFTER) <= self.answers() {
            for count in self.ended.iter_mut().chain(&mut self.survived) {
                *count /= 2;
            }
            let all = self.ended.iter().zip(&self.survived);
            let most = all.map(|(ended, survived)| ended.saturating_add(*survived)).max();
            self.come = most.unwrap_or(0);
        }
        self.stale_in = self.stale_in.saturating_sub(1);
        if self.stale_in == 0 {
            // So often that the tables are never more than a sixteenth behind.
            self.stale_in = u32::try_from(self.answers() / 16).unwrap_or(1).max(1);
            self.share_out(lent);
            self.tabulate();
            let is_lent = self.answers() <= lent.answers;
            self.known_to = self.reached().max(if is_lent { lent.known_to } else { 0 });
            self.known_place = place_of(&self.quantiles, self.known_to);
        }
    }

    fn grew(&mut self, before: u32, length: u32) {
        for bucket in bucket_of(before)..bucket_of(length) {
            self.survived[bucket] += WEIGHT;
            self.came_to(bucket);
        }
    }

    fn end(&mut self, length: u32) {
        let bucket = bucket_of(length);
        self.ended[bucket] += WEIGHT;
        self.came_to(bucket);
    }

    fn came_to(&mut self, bucket: usize) {
        let come = self.ended[bucket].saturating_add(self.survived[bucket]);
        self.come = self.come.max(come);
    }

    /// Answers that count: as many as have come to any bucket.
    fn answers(&self) -> u64 {
        u64::from(self.come / WEIGHT)
    }

    /// The length that [`KNOWN_FROM`] answers have reached.
    fn reached(&self) -> u32 {
        let come = self.ended.iter().zip(&self.survived);
        let mut come = come.map(|(ended, survived)| ended.saturating_add(*survived));
        let unknown = come.position(|come| come < KNOWN_FROM * WEIGHT);
        unknown.map_or(LENGTH_MAX, shortest)
    }

    /// Makes the shares, counting what is lent as well.
    fn share_out(&mut self, lent: Lent<'_>) {
        let own = self.answers();
        let mut left = WHOLE;
        let mut shares = [0; BUCKETS];
        for (bucket, share) in shares.iter_mut().enumerate() {
            let ended = u64::from(self.ended[bucket]);
            if ended == 0 {
                continue;
            }
            let come = ended + u64::from(self.survived[bucket]);
            *share = (left * ended).checked_div(come).unwrap_or(0);
            left -= *share;
        }
        // Those that outlived all that ended will end within twice what any has come to.
        let last = (0..BUCKETS).rev().find(|&bucket| self.survived[bucket] > 0).unwrap_or(0);
        let beyond = last + 1..BUCKETS.min(last + 1 + OCTAVE);
        let each = left / u64::try_from(beyond.len()).unwrap_or(1).max(1);
        for share in &mut shares[beyond] {
            *share += each;
        }
        for (bucket, share) in shares.into_iter().enumerate() {
            let others = u64::from(lent.shares[bucket]) * lent.answers;
            let mixed = (share * own + others) / (own + lent.answers);
            self.shares[bucket] = u32::try_from(mixed).unwrap_or(0);
        }
    }

    /// Makes the table of quantiles.
    fn tabulate(&mut self) {
        let share = |bucket: usize| u64::from(self.shares[bucket]);
        let whole: u64 = (0..BUCKETS).map(share).sum();
        let longest = last_with(share).map_or(0, |bucket| LONGEST[bucket]);
        let (mut bucket, mut below) = (0, 0);
        for (step, quantile) in (0_u64..).zip(&mut self.quantiles) {
            let wanted = whole * step / STEPS_WIDE;
            while bucket + 1 < BUCKETS && below + u64::from(self.shares[bucket]) <= wanted {
                below += u64::from(self.shares[bucket]);
                bucket += 1;
            }
            let width = u64::from(LONGEST[bucket] - shortest(bucket)) + 1;
            let into = width * (wanted - below) / u64::from(self.shares[bucket]).max(1);
            let length = shortest(bucket) + u32::try_from(into).unwrap_or(0);
            // The last one ends at the last bucket that has any.
            *quantile = length.min(longest);
        }
    }
}

fn last_with(weight: impl Fn(usize) -> u64) -> Option<usize> {
    (0..BUCKETS).rev().find(|&bucket| weight(bucket) > 0)
}

/// A place in one of the eighths between `from` and the greatest place.
const fn place_in(from: u64, eighth: u64, within: u64) -> u64 {
    from + (PLACE_MAX - from) * (eighth * STEP + within) / (8 * STEP)
}

/// The length at a place among the quantiles.
fn at(quantiles: &[u32; STEPS + 1], place: u64) -> u32 {
    let step = (place / STEP).min(STEPS_WIDE - 1);
    let below = usize::try_from(step).unwrap_or(0);
    let (low, high) = (quantiles[below], quantiles[below + 1]);
    let into = u64::from(high.saturating_sub(low)) * (place - step * STEP) / STEP;
    low + u32::try_from(into).unwrap_or(0)
}

/// The place of a length among the quantiles, the greatest if there are more.
fn place_of(quantiles: &[u32; STEPS + 1], length: u32) -> u64 {
    let above = quantiles.partition_point(|&quantile| quantile <= length);
    let Some(step) = above.checked_sub(1) else { return 0 };
    if step == STEPS {
        return PLACE_MAX;
    }
    let (low, high) = (quantiles[step], quantiles[step + 1]);
    let into = u64::from(length - low) * STEP / u64::from((high - low).max(1));
    u64::try_from(step).unwrap_or(0) * STEP + into
}

/// What answers are like before any was seen: as many between 16 and 32 tokens as between 512 and
/// 1,024, and none beyond.
const GENERAL: [u32; BUCKETS] = general();
const GENERAL_QUANTILES: [u32; STEPS + 1] = general_quantiles();

/// Six octaves of 64 units are the whole, all but.
const GENERAL_UNIT: u32 = (1 << 24) / (6 * 64);

const fn general() -> [u32; BUCKETS] {
    let mut weights = [0; BUCKETS];
    let mut bucket = 2;
    while bucket < 40 {
        weights[bucket] = match bucket {
            2..4 => 32 * GENERAL_UNIT,
            4..8 => 16 * GENERAL_UNIT,
            _ => 8 * GENERAL_UNIT,
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
