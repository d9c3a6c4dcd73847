//! Memory peak forecast: the most KV cache that a worker's requests in flight will need at once.
//!
//! Every sequence in flight holds what it *uses* now, and one token more with each step until it
//! ends; what it holds then comes free. With sequences sorted by what *remains*, the most first,
//! the peak is the greatest of `remaining_i * i + used_1 + … + used_i`: when the i-th ends, i of
//! them have grown by as much (Past-Future, arXiv 2507.10150). The remaining length is not known,
//! so it is sampled in each of eight worlds (Monte Carlo), and the peak is a mean and a deviation
//! over those.
//!
//! Invariant: every world holds exactly the requests that were started and have not ended.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::length_sample::{Remains, Worlds};
use super::pinned_prefixes::{Chain, Pinned};
use crate::estimate::{Class, DRAWS, LENGTH_MAX, Lengths};
use crate::prefix::PrefixKey;

/// Worlds over which a peak is averaged.
pub const WORLDS: usize = DRAWS;

/// Requests of one worker that are forecast at most; one more is not admitted by its peak.
pub const FORECAST_MAX: usize = 4_095;

/// Answers to one request that are told apart.
const ANSWERS_MAX: u32 = 1_024;

/// What a request is expected to come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prospect {
    /// Answers, each a sequence.
    pub answers: u32,
    /// How long each answer gets, in each world.
    pub lengths: [u32; WORLDS],
    /// Tokens that it may hold in the end: the prompt, and all answers at their declared length.
    pub declared: u64,
    /// Which answers are like these.
    pub class: Class,
    /// Tokens that each answer may have, if that was said.
    pub limit: Option<u32>,
    /// A number of its own, for further draws.
    pub dice: u64,
}

impl Prospect {
    fn sequences(&self) -> u32 {
        self.answers.clamp(1, ANSWERS_MAX)
    }
}

/// A peak over all worlds, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The mean.
    pub mean: u64,
    /// The standard deviation.
    pub deviation: u64,
}

impl Peak {
    /// The mean and so many thousandths of the deviation.
    pub const fn with_caution(self, milli: u32) -> u64 {
        self.mean.saturating_add(self.deviation.saturating_mul(milli as u64) / 1_000)
    }

    fn over(worlds: [u64; WORLDS]) -> Self {
        let count = worlds.iter().map(|_| 1).sum::<u64>();
        let mean = worlds.iter().sum::<u64>() / count;
        let apart = worlds.map(|world| world.abs_diff(mean));
        let deviation = if apart.iter().all(|apart| *apart <= APART_NARROW) {
            (apart.iter().map(|apart| apart * apart).sum::<u64>() / count).isqrt()
        } else {
            let variance = apart.iter().map(|apart| u128::from(*apart).pow(2)).sum::<u128>();
            u64::try_from((variance / u128::from(count)).isqrt()).unwrap_or(u64::MAX)
        };
        Self { mean, deviation }
    }
}

/// Squares of numbers up to this one, one for each world, add up to 64 bits: all of practice, and several times
/// as fast as 128.
const APART_NARROW: u64 = 1 << 30;

/// The place of a request among those of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

/// What a request holds when it is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booking {
    pub(crate) prospect: Prospect,
    /// Tokens of its prompt that no other request in flight holds as well.
    pub(crate) own: Tokens,
    /// When its prompt should have been computed, if nobody will tell.
    pub(crate) unseen: Option<Instant>,
}

impl Booking {
    /// Tokens of the cache that it takes for its prompt.
    pub(crate) fn used(&self) -> u32 {
        self.own.get().min(LENGTH_MAX)
    }
}

/// One request in flight.
#[derive(Clone, Copy, Debug)]
struct Held {
    booking: Booking,
    /// Tokens of all its answers so far.
    streamed: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Prefill,
    Decode,
}

impl Held {
    fn used(&self) -> u32 {
        self.booking.used().saturating_add(self.streamed).min(LENGTH_MAX)
    }

    /// Tokens of each answer so far.
    fn generated(&self) -> u32 {
        self.streamed / self.booking.prospect.answers.max(1)
    }

    /// What remains of it, and what it uses.
    fn remains(&self) -> Remains {
        let (generated, prospect) = (self.generated(), &self.booking.prospect);
        Remains {
            remaining: prospect.lengths.map(|length| length.saturating_sub(generated)),
            sequences: prospect.sequences(),
            used: self.used(),
        }
    }
}

/// Tokens in flight on one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Of the cache, as booked and streamed.
    pub(crate) used: u64,
    /// Those of requests whose prompt may not have been computed yet.
    pub(crate) prefilling: u64,
    /// What all of them may hold in the end.
    pub(crate) declared: u64,
    /// Answers under way.
    pub(crate) sequences: u64,
}

/// What is in flight on one worker, and what it will come to.
#[derive(Debug, Default)]
pub(crate) struct Forecast {
    held: Vec<Option<Held>>,
    vacant: Vec<usize>,
    /// Made when the first request comes.
    worlds: Option<Box<Worlds>>,
    sums: Sums,
    pinned: Pinned,
}

impl Forecast {
    pub(crate) const fn new() -> Self {
        let sums = Sums { used: 0, prefilling: 0, declared: 0, sequences: 0 };
        let pinned = Pinned::new();
        Self { held: Vec::new(), vacant: Vec::new(), worlds: None, sums, pinned }
    }

    /// Books a request; `None` when [`FORECAST_MAX`] are booked.
    pub(crate) fn start(&mut self, booking: Booking) -> Option<Place> {
        if self.is_full() {
            return None;
        }
        let held = Held { booking, streamed: 0, phase: Phase::Prefill };
        let place = self.vacant.pop().unwrap_or(self.held.len());
        if place == self.held.len() {
            self.held.push(None);
        }
        self.put(place, held);
        Some(Place(place))
    }

    /// Tokens at the front of a prompt that requests in flight hold already.
    pub(crate) fn held_of(&self, chain: Chain<'_>) -> u32 {
        self.pinned.held_of(chain)
    }

    /// Whether a request in flight holds a prompt up to this key ([`Chain::first_half`]).
    pub(crate) fn pins(&self, key: PrefixKey) -> bool {
        self.pinned.has(key)
    }

    /// Tells the blocks of a request's prompt from others': what several hold is counted once.
    pub(crate) fn pin(&mut self, place: Place, prompt: Tokens, chain: Chain<'_>) {
        if self.held.get(place.0).and_then(Option::as_ref).is_none() {
            return;
        }
        let Self { held, worlds, sums, pinned, .. } = self;
        let (common, shifts) = pinned.pin(place.0, chain);
        let mut books = Books { held, worlds, sums };
        for shift in shifts {
            books.shift(shift.place, |own| own.saturating_sub(shift.tokens));
        }
        books.shift(place.0, |_| prompt.get().saturating_sub(common));
    }

    /// The prompt of a request has been computed.
    pub(crate) fn first_token(&mut self, place: Place) {
        let Some(held) = self.held.get_mut(place.0).and_then(Option::as_mut) else { return };
        // What it uses and what remains of it is as before.
        self.sums.sub(held);
        held.phase = Phase::Decode;
        self.sums.add(held);
    }

    /// So many tokens of all its answers have come. Its lengths are drawn again, with what is known by now.
    pub(crate) fn progress(&mut self, place: Place, streamed: Tokens, lengths: &Lengths) {
        let Self { held, worlds, sums, .. } = self;
        let Some(held) = held.get_mut(place.0).and_then(Option::as_mut) else { return };
        let Some(worlds) = worlds else { return };
        sums.sub(held);
        let before = held.remains();
        held.streamed = held.streamed.max(streamed.get());
        held.phase = Phase::Decode;
        sums.add(held);
        let generated = held.generated();
        let Prospect { lengths: drawn, class, limit, dice, .. } = &mut held.booking.prospect;
        *drawn = lengths.draw(*class, *limit, generated, *dice);
        worlds.change(&before, &held.remains());
    }

    /// Gives back all that a request was booked with.
    pub(crate) fn end(&mut self, place: Place) {
        if self.take(place).is_none() {
            return;
        }
        self.vacant.push(place.0);
        let Self { held, worlds, sums, pinned, .. } = self;
        let mut books = Books { held, worlds, sums };
        for shift in pinned.release(place.0) {
            books.shift(shift.place, |own| own.saturating_add(shift.tokens));
        }
    }

    /// Takes answers that nobody sees before they are whole to have grown by a token each `step`.
    pub(crate) fn advance(&mut self, step: Micros, lengths: &Lengths, now: Instant) {
        for place in 0..self.held.len() {
            let Some(held) = self.held[place] else { continue };
            let Some(computed) = held.booking.unseen.filter(|computed| *computed <= now) else {
                continue;
            };
            let prospect = held.booking.prospect;
            let steps = now.since(computed).get() / step.get().max(1);
            let steps = u32::try_from(steps).unwrap_or(u32::MAX);
            let each = steps.min(prospect.limit.unwrap_or(LENGTH_MAX)).min(LENGTH_MAX);
            let streamed = Tokens::new(each.saturating_mul(prospect.answers));
            self.progress(Place(place), streamed, lengths);
        }
    }

    /// Whether no more requests are forecast.
    pub(crate) fn is_full(&self) -> bool {
        FORECAST_MAX <= self.held.len() && self.vacant.is_empty()
    }

    /// What is in flight, prefixes that several requests hold counted once.
    pub(crate) const fn sums(&self) -> Sums {
        Sums { used: self.sums.used + self.pinned.shared(), ..self.sums }
    }

    /// The peak of what is in flight.
    pub(crate) fn peak(&self) -> Peak {
        let shared = self.pinned.shared();
        self.worlds.as_ref().map_or_else(Peak::default, |worlds| {
            Peak::over(worlds.peaks_with(None).map(|peak| shared + peak))
        })
    }

    /// The peak with one more request that uses `used` tokens at its start.
    pub(crate) fn peak_with(&self, prospect: &Prospect, used: u32) -> Peak {
        let (sequences, used) = (prospect.sequences(), used.min(LENGTH_MAX));
        let alone = |length: u32| u64::from(length) * u64::from(sequences) + u64::from(used);
        let Some(worlds) = &self.worlds else { return Peak::over(prospect.lengths.map(alone)) };
        let (remaining, shared) = (prospect.lengths, self.pinned.shared());
        let peaks = worlds.peaks_with(Some(&Remains { remaining, sequences, used }));
        Peak::over(peaks.map(|peak| shared + peak))
    }

    /// No world's peak is more with this request, buckets aside: as if nobody ended before all have.
    pub(crate) fn bound_with(&self, prospect: &Prospect, used: u32) -> u64 {
        let answers = u64::from(prospect.sequences());
        let remaining = self.worlds.as_ref().map_or(&[0; WORLDS], |worlds| worlds.remaining());
        let grown = remaining.iter().zip(&prospect.lengths);
        let most = grown.map(|(remaining, length)| remaining + u64::from(*length) * answers).max();
        self.sums().used.saturating_add(most.unwrap_or(0)).saturating_add(u64::from(used))
    }

    /// Tokens that all answers under way have before them, as a mean over worlds.
    pub(crate) fn remaining(&self) -> u64 {
        let worlds = self.worlds.as_ref().map_or(&[0; WORLDS], |worlds| worlds.remaining());
        worlds.iter().sum::<u64>() / worlds.iter().map(|_| 1).sum::<u64>()
    }

    /// Steps until requests have ended that hold `tokens` by then, as a mean over worlds; `None` if
    /// all of them together do not.
    pub(crate) fn steps_until_free(&self, tokens: u64) -> Option<u64> {
        let worlds = self.worlds.as_ref()?;
        let (mut sum, mut count) = (0, 0);
        for steps in worlds.steps_until_free(tokens).into_iter().flatten() {
            sum += u64::from(steps);
            count += 1;
        }
        // Where it is not enough in half of the worlds, nothing can be said.
        (WORLDS / 2 <= count).then(|| sum / u64::try_from(count).unwrap_or(1).max(1))
    }

    fn put(&mut self, place: usize, held: Held) {
        self.worlds.get_or_insert_with(Worlds::new).put(&held.remains());
        self.sums.add(&held);
        self.held[place] = Some(held);
    }

    fn take(&mut self, place: Place) -> Option<Held> {
        let held = self.held.get_mut(place.0)?.take()?;
        if let Some(worlds) = &mut self.worlds {
            worlds.take(&held.remains());
        }
        self.sums.sub(&held);
        Some(held)
    }
}

/// What is kept of requests besides their pieces.
struct Books<'a> {
    held: &'a mut Vec<Option<Held>>,
    worlds: &'a mut Option<Box<Worlds>>,
    sums: &'a mut Sums,
}

impl Books<'_> {
    /// Changes what is a request's own.
    fn shift(&mut self, place: usize, own: impl FnOnce(u32) -> u32) {
        let Some(held) = self.held.get_mut(place).and_then(Option::as_mut) else { return };
        self.sums.sub(held);
        let before = held.remains();
        held.booking.own = Tokens::new(own(held.booking.own.get()));
        self.sums.add(held);
        if let Some(worlds) = self.worlds {
            worlds.change(&before, &held.remains());
        }
    }
}

impl Sums {
    fn add(&mut self, held: &Held) {
        let used = u64::from(held.used());
        self.used += used;
        self.prefilling += if held.phase == Phase::Prefill { used } else { 0 };
        self.declared += held.booking.prospect.declared;
        self.sequences += u64::from(held.booking.prospect.sequences());
    }

    fn sub(&mut self, held: &Held) {
        let used = u64::from(held.used());
        self.used -= used;
        self.prefilling -= if held.phase == Phase::Prefill { used } else { 0 };
        self.declared -= held.booking.prospect.declared;
        self.sequences -= u64::from(held.booking.prospect.sequences());
    }
}
