//! Moving averages (EWMA): estimates of speeds, lengths and sizes from weighted observations.
//!
//! Each estimate is a ratio of two fading sums: a large observation counts for more than a small
//! one, an old one for less than a new one, and a prior of a stated weight stands in before there
//! are any. It uses integers only, so that an estimate is the same on every machine.

mod arrivals;
mod lengths;
mod media;
mod moving_average;
mod percentile;
mod relative;
mod scale;
mod sliding;
#[cfg(test)]
mod tests;

use overdraft_units::{Instant, Micros, Tokens};

pub(crate) use self::arrivals::{Arrivals, delayed};
pub use self::lengths::{CLASSES_MAX, Class, DRAWS, Kind, Lengths};
pub use self::media::Media;
use self::media::MediaTokens;
pub(crate) use self::moving_average::MovingAverage;
pub(crate) use self::percentile::Histogram;
use self::relative::Relative;
pub(crate) use self::scale::{BUCKETS, LENGTH_MAX, LONGEST, bucket_of};
pub use self::sliding::{SlidingRatio, WINDOW};

/// Tokens a second that a worker is taken to prefill before it has been seen to.
pub const PREFILL_RATE_FIRST: u64 = 4_000;

/// Prompts of fewer tokens say more about the network than about the worker.
const PREFILL_TOKENS_MIN: u64 = 64;

/// How fast prompts are computed.
///
/// ```
/// use overdraft_core::estimate::PrefillRate;
/// use overdraft_units::Micros;
///
/// let mut rate = PrefillRate::new();
/// rate.note(10_000, Micros::new(1_000_000));
/// assert_eq!(rate.pace().tokens_in(Micros::new(100_000)), 1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillRate {
    /// Tokens over microseconds.
    seen: MovingAverage,
    /// The same beside what its fleet led to expect.
    beside: Relative,
    /// Its pace, if it is proven to differ from its fleet's.
    own: Option<Pace>,
    /// Of the last step that was faster than expected, which may not be over.
    latest: Option<StepSeen>,
}

/// What was seen of one step: its last first token, which had the most before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepSeen {
    /// When its first one came.
    began: Instant,
    took: Micros,
    expected: Micros,
}

impl PrefillRate {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { seen: MovingAverage::new(), beside: Relative::new(), own: None, latest: None }
    }

    /// So many tokens were computed in that time, queueing included on both sides.
    pub fn note(&mut self, tokens: u64, took: Micros) {
        if PREFILL_TOKENS_MIN <= tokens && took != Micros::ZERO {
            self.seen.note(tokens, took.get());
        }
    }

    /// The same of one worker, whose whole fleet goes at that pace and whose steps take `step`.
    ///
    /// All prompts that are computed in one step took as long as it, so first tokens that come within half a step and
    /// sooner than expected are one observation. Those that come later each count: a worker that is wrongly taken to
    /// be slow gets less, one that is wrongly taken to be fast gets too much.
    pub fn note_beside(
        &mut self,
        tokens: u64,
        took: Micros,
        fleet: Pace,
        at: Instant,
        step: Micros,
    ) {
        if PREFILL_TOKENS_MIN <= tokens && took != Micros::ZERO {
            self.seen.note(tokens, took.get());
            let expected = fleet.time_for(tokens);
            if expected <= took {
                self.beside.note(took.get(), expected.get());
            } else if let Some(seen) = self.step_before(took, expected, at, step) {
                self.beside.note(seen.took.get(), seen.expected.get());
            }
            self.own = self.beside.is_proven().then(|| self.pace());
        }
    }

    /// Notes a first token that came sooner than expected; returns what was seen of the step before, if this is of
    /// another.
    fn step_before(
        &mut self,
        took: Micros,
        expected: Micros,
        at: Instant,
        step: Micros,
    ) -> Option<StepSeen> {
        let is_same = |seen: &StepSeen| at.since(seen.began).get() <= step.get() / 2;
        let same = self.latest.filter(is_same);
        let began = same.map_or(at, |seen| seen.began);
        let before = self.latest.replace(StepSeen { began, took, expected });
        before.filter(|_| same.is_none())
    }

    /// How fast prompts are computed, judging by these observations alone.
    pub fn pace(&self) -> Pace {
        let (tokens, micros) = match self.seen.parts() {
            (0, _) | (_, 0) => (PREFILL_RATE_FIRST, 1_000_000),
            parts => parts,
        };
        Pace(micros.saturating_mul(Pace::TOKENS) / tokens)
    }

    /// The pace of a worker of that `fleet`: the fleet's, unless it is proven to differ.
    pub fn pace_within(&self, fleet: Pace) -> Pace {
        self.own.unwrap_or(fleet)
    }

    /// Its pace, if it is proven to differ from its fleet's.
    pub(crate) const fn own(&self) -> Option<Pace> {
        self.own
    }

    /// Tokens a second; `None` before anything was seen.
    pub fn tokens_per_second(&self) -> Option<u64> {
        let (tokens, micros) = self.seen.parts();
        (micros > 0).then(|| tokens.saturating_mul(1_000_000) / micros)
    }
}

/// Time per prompt token, as microseconds for 1,024 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pace(u64);

impl Pace {
    const TOKENS: u64 = 1_024;

    /// So many tokens a second; at least one.
    pub fn per_second(tokens: u64) -> Self {
        Self(Self::TOKENS * 1_000_000 / tokens.max(1))
    }

    /// Time to compute `tokens`.
    pub const fn time_for(self, tokens: u64) -> Micros {
        Micros::new(tokens.saturating_mul(self.0) / Self::TOKENS)
    }

    /// Tokens computed in that time.
    pub fn tokens_in(self, time: Micros) -> u64 {
        time.get().saturating_mul(Self::TOKENS) / self.0.max(1)
    }
}

impl Default for PrefillRate {
    fn default() -> Self {
        Self::new()
    }
}

/// How long one decode step takes.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// Microseconds over tokens of one sequence.
    seen: MovingAverage,
    /// What they come to: asked for in every decision, and changed only by answers.
    step: Micros,
    /// The slowest of late: of answers that were long enough to tell; zero before there was one.
    slowest: Micros,
    /// The same beside what its fleet led to expect.
    beside: Relative,
}

/// Tokens of an answer that tells how slow a worker may be: a single pause makes fewer look slow.
const SLOWEST_TOKENS_MIN: u32 = 16;

/// The slowest step is forgotten by one part in so many with each answer that was faster.
const SLOWEST_FADE: u64 = 64;

/// A decode step before one was seen.
pub const STEP_TIME_FIRST: Micros = Micros::new(20_000);

impl StepTime {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        let (seen, beside) = (MovingAverage::new(), Relative::new());
        Self { seen, step: STEP_TIME_FIRST, slowest: Micros::ZERO, beside }
    }

    /// One answer generated `tokens` after its first in that time.
    pub fn note(&mut self, tokens: Tokens, took: Micros) {
        if tokens != Tokens::ZERO {
            self.seen.note(took.get(), u64::from(tokens.get()));
            let (micros, tokens) = self.seen.parts();
            self.step = micros.checked_div(tokens).map_or(STEP_TIME_FIRST, Micros::new);
        }
        if SLOWEST_TOKENS_MIN <= tokens.get() {
            let each = took.get() / u64::from(tokens.get());
            let faded = self.slowest.get() - self.slowest.get() / SLOWEST_FADE;
            self.slowest = Micros::new(each.max(faded));
        }
    }

    /// The same of one worker, whose whole fleet takes that long for a step.
    pub fn note_beside(&mut self, tokens: Tokens, took: Micros, fleet: Micros) {
        if tokens != Tokens::ZERO {
            self.note(tokens, took);
            self.beside.note(took.get(), fleet.get().saturating_mul(u64::from(tokens.get())));
        }
    }

    /// One step.
    pub const fn micros(&self) -> Micros {
        self.step
    }

    /// One step, once any was seen.
    pub(crate) fn seen(&self) -> Option<Micros> {
        (self.seen != MovingAverage::new()).then_some(self.step)
    }

    /// The slowest step of late, as a mean over an answer; `None` before an answer was long enough to tell.
    pub fn slowest(&self) -> Option<Micros> {
        (self.slowest != Micros::ZERO).then_some(self.slowest)
    }

    /// One step, if it is proven to differ from its fleet's.
    pub(crate) fn own(&self) -> Option<Micros> {
        self.beside.is_proven().then_some(self.step)
    }
}

/// A decode step takes twice as long with so many tokens in the cache: it then reads as many bytes of keys
/// and values as of weights (120 to 430 thousand tokens for dense models of 8 to 70 billion parameters).
pub const STEP_DOUBLES_AT: u64 = 256 * 1_024;

/// What is left of the time of a step without what `tokens` in the cache add to it.
pub fn bare(took: Micros, tokens: u64) -> Micros {
    let whole = u128::from(STEP_DOUBLES_AT);
    let bare = u128::from(took.get()) * whole / (whole + u128::from(tokens));
    Micros::new(u64::try_from(bare).unwrap_or(u64::MAX))
}

impl Default for StepTime {
    fn default() -> Self {
        Self::new()
    }
}

/// What is believed of the requests for one model.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// Bytes of the request over tokens of its prompt.
    bytes: MovingAverage,
    /// Tokens generated over answers.
    completions: MovingAverage,
    media: MediaTokens,
}

/// Bytes to a token before any was counted: what English text comes to.
const BYTES_PER_TOKEN_FIRST: u64 = 4;

/// More bytes to a token than any text has: pictures, and other things in base64.
const BYTES_PER_TOKEN_MAX: u64 = 16;

/// Tokens that an answer is taken to have before any was counted.
const COMPLETION_FIRST: u64 = 256;

impl Default for Texts {
    fn default() -> Self {
        Self::new()
    }
}

impl Texts {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self {
            bytes: MovingAverage::new(),
            completions: MovingAverage::new(),
            media: MediaTokens::new(),
        }
    }

    /// A prompt of `bytes` of text and of `media` turned out to have `tokens`.
    pub fn note_prompt(&mut self, bytes: u64, media: Media, tokens: Tokens) {
        let tokens = u64::from(tokens.get());
        if 0 < media.parts {
            let text = u64::from(self.tokens_of(bytes).get());
            self.media.note(media, tokens.saturating_sub(text));
            return;
        }
        // Short prompts are mostly template, and what has very many bytes to a token is no text.
        let text = bytes > 0 && bytes <= tokens.saturating_mul(BYTES_PER_TOKEN_MAX);
        if PREFILL_TOKENS_MIN <= tokens && text {
            self.bytes.note(bytes, tokens);
        }
    }

    /// An answer came to `tokens`.
    pub fn note_completion(&mut self, tokens: Tokens) {
        self.completions.note(u64::from(tokens.get()), 1);
    }

    /// Tokens of a prompt of `bytes`, at least one.
    pub fn tokens_of(&self, bytes: u64) -> Tokens {
        let (seen, tokens) = self.bytes.parts();
        let (seen, tokens) = if seen == 0 { (BYTES_PER_TOKEN_FIRST, 1) } else { (seen, tokens) };
        let count = u128::from(bytes) * u128::from(tokens) / u128::from(seen.max(1));
        Tokens::new(u32::try_from(count).unwrap_or(u32::MAX).max(1))
    }

    /// Tokens of a prompt of `bytes` of text and of `media`.
    pub fn tokens_with(&self, bytes: u64, media: Media) -> Tokens {
        let media = self.media.tokens_of(media);
        let tokens = u64::from(self.tokens_of(bytes).get()).saturating_add(media);
        Tokens::new(u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Tokens that so many bytes of words come to at least: at half of what is usual for the model, which no text
    /// of the same clients falls short of, and never at more bytes to a token than any text has.
    pub fn least_of(&self, words: u64) -> Tokens {
        let half = u64::from(self.tokens_of(words).get()) / 2;
        let least = half.max(words / BYTES_PER_TOKEN_MAX);
        Tokens::new(u32::try_from(least).unwrap_or(u32::MAX))
    }

    /// Tokens that an answer will have, of at most `limit`.
    pub fn completion_of(&self, limit: Option<u32>) -> Tokens {
        let mean = match self.completions.parts() {
            (_, 0) => COMPLETION_FIRST,
            (tokens, answers) => tokens / answers,
        };
        let mean = u32::try_from(mean).unwrap_or(u32::MAX).max(1);
        Tokens::new(limit.map_or(mean, |limit| mean.min(limit)))
    }
}
