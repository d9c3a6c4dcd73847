//! Kalman filter of step cost: the machine's pace and the prices of drafted and prompt rows.
//!
//! A step takes `pace · (sequences + guess · guesses + prompt · prompts)`, each by the cost table.
//! The pace changes within a hundred steps, because other programs use the machine too; the prices
//! belong to the model and hardly change. So the filter attributes a slow step to the pace first,
//! and to a price only as far as steps with more and with fewer such rows distinguish the two: it
//! has a state of three numbers, and its process noise is in the pace. Estimated from steps with
//! drafts alone, a slow machine would look like dear drafts and a fast one like cheap ones
//! (`docs/design/speculation.md#r3`).

use super::costs::{Nanos, StepCosts, float, nanos};
use crate::batch::Slot;

/// Initial measurement noise: standard deviation of a step's time, as a share of it; then estimated
/// from the residuals.
const NOISE: f64 = 0.12;
/// Lower and upper bound of it.
const NOISE_LEAST: f64 = 0.10;
const NOISE_MOST: f64 = 0.25;
/// Time constant of the noise estimate, in steps.
const NOISE_MEMORY: f64 = 128.0;
/// Initial process noise of the pace per step; then larger where consecutive residuals correlate,
/// and smaller where they do not.
const PACE_DRIFT: f64 = 0.03;
/// Lower and upper bound of it.
const PACE_DRIFT_LEAST: f64 = 0.005;
const PACE_DRIFT_MOST: f64 = 0.06;
/// What two steps say of that.
const PACE_DRIFT_GAIN: f64 = 0.02;
/// Process noise of the prices per step, relative to a row of a sequence.
const PRICE_DRIFT: f64 = 0.005;
/// Initial uncertainty of the pace, and of the prices.
const PACE_UNKNOWN: f64 = 0.3;
const PRICE_UNKNOWN: f64 = 0.25;
/// Added uncertainty of a price where the number of decoding sequences changes much.
const PRICE_OF_LOAD: f64 = 0.15;
/// Outlier clamp: maximum residual of a step, in standard deviations.
const DISTURBED: f64 = 2.5;
/// Outlier clamp of the first of consecutive outliers.
const DISTURBED_ONCE: f64 = 1.75;
/// Steps of Newton's method.
const ROOT_STEPS: u32 = 8;
/// So far off, as a standard deviation, are prices that are known well.
const KNOWN_WELL: f64 = 0.12;
/// No price is below or above.
const PRICE_LEAST: f64 = 1.0 / 16.0;
const PRICE_MOST: f64 = 4.0;
/// Nor is the pace.
const PACE_LEAST: f64 = 1.0 / 64.0;
const PACE_MOST: f64 = 64.0;

/// Rows of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Sequences that decoded, with a row each.
    pub sequences: u32,
    /// Rows of guesses besides.
    pub guesses: u32,
    /// Rows of prompts.
    pub prompts: u32,
    /// Sequences whose prompts those are.
    pub beginning: u32,
    /// Tokens that came of it.
    pub tokens: u32,
}

/// The pace, and what guesses and prompts take at that pace, with how much is known of them.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    state: [f64; 3],
    /// The covariance.
    spread: [[f64; 3]; 3],
    /// The variance of what a step takes, as a part of its square.
    noise: f64,
    /// What the pace changes by from one step to the next.
    drift: f64,
    /// By how many standard deviations the last step was off.
    off: f64,
    /// Sequences of the last step.
    sequences: u32,
}

impl Ran {
    /// A step of these slots, of which so many tokens came.
    pub fn of(slots: &[Slot], tokens: usize) -> Self {
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        let mut ran = Self { tokens, ..Self::default() };
        for slot in slots {
            if slot.length.get() == slot.drafts.get() + 1 {
                ran.sequences += 1;
                ran.guesses += slot.drafts.get();
            } else {
                ran.beginning += 1;
                ran.prompts += slot.length.get();
            }
        }
        ran
    }
}

impl Default for Prices {
    fn default() -> Self {
        let price = PRICE_UNKNOWN * PRICE_UNKNOWN;
        let spread =
            [[PACE_UNKNOWN * PACE_UNKNOWN, 0.0, 0.0], [0.0, price, 0.0], [0.0, 0.0, price]];
        Self {
            state: [1.0; 3],
            spread,
            noise: NOISE * NOISE,
            drift: PACE_DRIFT,
            off: 0.0,
            sequences: 0,
        }
    }
}

impl Prices {
    /// How many times longer than the table says everything takes just now.
    pub(super) fn pace(&self) -> f64 {
        self.state[0]
    }

    /// What a row of a guess takes, as a part of what a row of a sequence does.
    pub(super) fn guess(&self) -> f64 {
        self.state[1] / self.state[0]
    }

    /// What it may be at the least, by one standard deviation beyond what is never known better.
    pub(super) fn hoped(&self) -> f64 {
        let deviation = root(self.variance()) / self.pace();
        (self.guess() - (deviation - KNOWN_WELL).max(0.0)).max(PRICE_LEAST)
    }

    /// How far the price of a guess may be off, at this pace, as the square of a standard deviation.
    fn variance(&self) -> f64 {
        let price = self.guess();
        let [[pace, both, _], [_, guess, _], _] = self.spread;
        guess - 2.0 * price * both + price * price * pace
    }

    /// What took so long, as the table would have it.
    pub(super) fn at_usual_pace(&self, took: Nanos) -> Nanos {
        nanos(float(took) / self.pace())
    }

    /// Takes note of what a step took; of none in which no sequence decoded, for the table is of those.
    pub(super) fn observe(&mut self, costs: &StepCosts, ran: &Ran, took: Nanos) {
        let Ran { sequences, prompts, guesses, .. } = *ran;
        let verify = &costs.verify;
        let plain = float(verify.at(sequences));
        if plain <= 0.0 {
            return;
        }
        let beside = verify.at(sequences + prompts);
        let prompted = float(beside - verify.at(sequences)) / plain;
        let guessed = float(verify.at(sequences + prompts + guesses) - beside) / plain;
        self.age(sequences);
        self.update([1.0, guessed, prompted], float(took) / plain);
        self.bound();
    }

    /// A step later everything may be slower or quicker, and prices a little off.
    fn age(&mut self, sequences: u32) {
        let before = core::mem::replace(&mut self.sequences, sequences);
        let most = f64::from(sequences.max(before));
        let load = PRICE_OF_LOAD * f64::from(sequences.abs_diff(before)) / most;
        let price = (PRICE_DRIFT * PRICE_DRIFT + load * load) * self.pace() * self.pace();
        for row in 0..3 {
            for column in 0..3 {
                let pace = self.state[row] * self.state[column];
                self.spread[row][column] += self.drift * self.drift * pace;
            }
        }
        self.spread[1][1] += price;
        self.spread[2][2] += price;
    }

    fn update(&mut self, rows: [f64; 3], took: f64) {
        let expected = dot(rows, self.state);
        let known = self.spread.map(|line| dot(line, rows));
        let uncertain = dot(known, rows);
        let variance = uncertain + self.noise * expected * expected;
        let deviation = root(variance);
        let off = (took - expected) / deviation;
        // One step that takes long was disturbed; if the next does as well, everything takes longer.
        let most = if 1.0 < self.off * off.signum() { DISTURBED } else { DISTURBED_ONCE };
        let off = off.clamp(-most, most) * deviation;
        let like_before = off / deviation * core::mem::replace(&mut self.off, off / deviation);
        self.drift *= 1.0 + PACE_DRIFT_GAIN * like_before.clamp(-1.0, 1.0);
        self.drift = self.drift.clamp(PACE_DRIFT_LEAST, PACE_DRIFT_MOST);
        let noise = (off * off - uncertain) / (expected * expected);
        self.noise += (noise - self.noise) / NOISE_MEMORY;
        self.noise = self.noise.clamp(NOISE_LEAST * NOISE_LEAST, NOISE_MOST * NOISE_MOST);
        let gain = known.map(|known| known / variance);
        for ((state, line), gain) in self.state.iter_mut().zip(&mut self.spread).zip(gain) {
            *state += gain * off;
            for (spread, known) in line.iter_mut().zip(known) {
                *spread -= gain * known;
            }
        }
    }

    fn bound(&mut self) {
        let [pace, guess, prompt] = self.state;
        let pace = pace.clamp(PACE_LEAST, PACE_MOST);
        let within = |price: f64| price.clamp(PRICE_LEAST * pace, PRICE_MOST * pace);
        self.state = [pace, within(guess), within(prompt)];
    }
}

/// The square root, from above, to a thousandth where it lies between a hundredth and a hundred.
fn root(square: f64) -> f64 {
    (0..ROOT_STEPS).fold(1.0, |root, _| f64::midpoint(root, square / root))
}

fn dot(one: [f64; 3], other: [f64; 3]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
