//! Seeded random numbers of the simulation.
//!
//! Equal seeds and equal streams draw alike. Everything that is random in a workload or a simulation draws
//! from here, each concern from a stream of its own, so that one more draw in one place changes nothing in
//! another.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::float_conversion::float;

/// Tries at one gamma draw: more than 95 of 100 are taken at once.
const TRIES_MAX: u32 = 64;

/// Draws of one stream.
#[derive(Clone, Debug)]
pub struct Draws(ChaCha8Rng);

/// Which of so many, some more often than others.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    /// Shares of the first one, the first two, and so on; the last is 1.
    cumulated: Vec<f64>,
}

impl Draws {
    /// The stream called `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `0..1`.
    pub fn share(&mut self) -> f64 {
        float(self.any() >> 11) * (f64::EPSILON / 2.0)
    }

    /// A number in `0..below`; zero where that is empty.
    pub fn below(&mut self, below: u64) -> u64 {
        self.any() % below.max(1)
    }

    /// The time to the next of events that come at random.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.share()).ln() * mean
    }

    /// Around zero, with a deviation of one (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share()).cos()
    }

    /// A length with this mean whose logarithm deviates by `spread`; the mean itself where that is zero.
    pub fn lognormal(&mut self, mean: f64, spread: f64) -> f64 {
        if spread <= 0.0 {
            return mean;
        }
        mean * (spread * self.normal() - spread * spread / 2.0).exp()
    }

    /// A gap with this mean; the lower `shape`, the burstier, and 1 is exponential (Marsaglia and Tsang).
    pub fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        let shape = shape.max(1e-3);
        // Below one: the draw of one more, scaled down.
        let (whole, factor) = if shape < 1.0 {
            (shape + 1.0, (1.0 - self.share()).powf(1.0 / shape))
        } else {
            (shape, 1.0)
        };
        let d = whole - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        let mut drawn = d;
        for _ in 0..TRIES_MAX {
            let normal = self.normal();
            let cube = (1.0 + c * normal).powi(3);
            if cube > 0.0
                && (1.0 - self.share()).ln() < normal * normal / 2.0 + d - d * cube + d * cube.ln()
            {
                drawn = d * cube;
                break;
            }
        }
        drawn * factor * mean / shape
    }

    /// A gap with this mean from Weibull's distribution.
    pub fn weibull(&mut self, shape: f64, mean: f64) -> f64 {
        let shape = shape.max(0.05);
        let scale = mean / gamma_function(1.0 + 1.0 / shape);
        scale * (-(1.0 - self.share()).ln()).powf(1.0 / shape)
    }

    /// How many turns, one at least, if each is followed by another with equal odds.
    pub fn geometric(&mut self, mean: f64, most: u64) -> u64 {
        let stops = 1.0 / mean.max(1.0);
        (1..most.max(1)).find(|_| self.share() < stops).unwrap_or(most.max(1))
    }
}

impl Ranks {
    /// So many, the `n`-th as often as `1 / n^skew`; zero makes them equal.
    pub(crate) fn new(count: u64, skew: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulated: Vec<f64> = (1..=count.max(1))
            .map(|rank| {
                sum += float(rank).powf(-skew);
                sum
            })
            .collect();
        for share in &mut cumulated {
            *share /= sum;
        }
        Self { cumulated }
    }

    /// One of them, counted from zero.
    pub(crate) fn draw(&self, draws: &mut Draws) -> u64 {
        let share = draws.share();
        let last = self.cumulated.len() - 1;
        let at = self.cumulated.partition_point(|&below| below <= share).min(last);
        crate::float_conversion::length(at)
    }
}

/// Stirling's series, shifted up to where it is exact to ten digits.
fn gamma_function(value: f64) -> f64 {
    const SHIFT: u32 = 8;
    let product: f64 = (0..SHIFT).map(|step| value + f64::from(step)).product();
    let x = value + f64::from(SHIFT);
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    let log = (x - 0.5) * x.ln() - x + std::f64::consts::TAU.ln() / 2.0 + series;
    log.exp() / product
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: u32 = 40_000;

    #[track_caller]
    fn check(name: &str, mean: f64, mut draw: impl FnMut(&mut Draws) -> f64) {
        let mut draws = Draws::new(7, 1);
        let sum: f64 = (0..DRAWN).map(|_| draw(&mut draws)).sum();
        let found = sum / f64::from(DRAWN);
        assert!((found / mean - 1.0).abs() < 0.05, "{name}: {found} is not {mean}");
    }

    #[test]
    fn draws_have_the_mean_that_was_asked_for() {
        check("exponential", 3.0, |draws| draws.exponential(3.0));
        check("lognormal", 400.0, |draws| draws.lognormal(400.0, 0.7));
        check("gamma, bursty", 2.0, |draws| draws.gamma(0.4, 2.0));
        check("gamma, even", 2.0, |draws| draws.gamma(4.0, 2.0));
        check("weibull", 2.0, |draws| draws.weibull(0.7, 2.0));
        check("geometric", 5.0, |draws| float(draws.geometric(5.0, 1_000)));
    }

    #[test]
    fn equal_seeds_and_streams_draw_alike() {
        let four = |seed, stream| {
            let mut draws = Draws::new(seed, stream);
            [draws.any(), draws.any(), draws.any(), draws.any()]
        };
        assert_eq!(four(1, 2), four(1, 2));
        assert_ne!(four(1, 2), four(1, 3));
        assert_ne!(four(1, 2), four(2, 2));
    }

    #[test]
    fn ranks_fall_off_by_their_skew() {
        let mut draws = Draws::new(1, 1);
        let ranks = Ranks::new(10, 1.0);
        let mut seen = [0_u32; 10];
        for _ in 0..DRAWN {
            let rank = usize::try_from(ranks.draw(&mut draws)).unwrap();
            seen[rank] += 1;
        }
        let ratio = f64::from(seen[0]) / f64::from(seen[4]);
        assert!((4.5..5.5).contains(&ratio), "{seen:?}");
    }
}
