//! Arrivals and lengths: the kinds of traffic of the admission bench.

use crate::Dice;
use overdraft_core::admit::Priority;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Prompts of a thousand tokens, answers of some hundreds.
    Chat,
    /// Short prompts and answers of thousands.
    LongOutput,
    /// Three times what small caches can do, without a pause: answers of 60 or 400 tokens, declared
    /// as four to ten times as long, of all priorities.
    Burst,
    /// Two tenants, each at two fifths of what small caches can do.
    Shared,
    /// The same, and the other asks for ten times as much.
    Flooded,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// When it comes, in microseconds.
    pub(crate) at: u64,
    pub(crate) prompt: u32,
    /// How long its answer gets; nobody is told.
    pub(crate) length: u32,
    /// How long it may get.
    pub(crate) limit: u32,
    pub(crate) priority: Priority,
    pub(crate) tenant: u64,
}

/// A burst, and the quiet after it, in seconds.
const BURST: f64 = 4.0;
const CYCLE: f64 = 40.0;

/// How much faster requests come in a burst.
const BURST_FACTOR: f64 = 12.0;

const MICROS: f64 = 1e6;

/// Half of what it can do comes before the burst that lasts, in microseconds.
const BURST_WARM_UP: f64 = 20e6;

impl Workload {
    pub(crate) const ALL: [Self; 5] =
        [Self::Chat, Self::LongOutput, Self::Burst, Self::Shared, Self::Flooded];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::LongOutput => "long_output",
            Self::Burst => "burst",
            Self::Shared => "shared",
            Self::Flooded => "flooded",
        }
    }

    /// Whether it is about one tenant beside another; figures are the first one's then.
    pub(crate) const fn has_tenants(self) -> bool {
        matches!(self, Self::Shared | Self::Flooded)
    }

    /// Pages of each worker's cache.
    pub(crate) const fn blocks(self) -> u32 {
        match self {
            Self::Chat | Self::LongOutput => 13_600,
            Self::Burst | Self::Shared | Self::Flooded => 750,
        }
    }

    /// How old a worker's word is when it counts, in microseconds.
    pub(crate) const fn scrape_age(self) -> u64 {
        match self {
            Self::Chat | Self::LongOutput => 1_000_000,
            Self::Burst | Self::Shared | Self::Flooded => 10_000,
        }
    }

    /// Nothing is counted before, in microseconds: no rule knows at first how long answers get.
    pub(crate) const fn warm_up(self) -> u64 {
        match self {
            Self::Chat | Self::LongOutput => 120_000_000,
            Self::Burst | Self::Shared | Self::Flooded => 20_000_000,
        }
    }

    /// How long a request may wait before it is started, in microseconds.
    pub(crate) const fn patience(self) -> u64 {
        match self {
            Self::Chat | Self::LongOutput => 60_000_000,
            Self::Burst | Self::Shared | Self::Flooded => 10_000_000,
        }
    }

    /// Requests a second outside of bursts: with them, somewhat more than can be served.
    const fn rate(self) -> f64 {
        match self {
            Self::Chat => 7.0,
            Self::LongOutput => 2.0,
            Self::Burst => 24.0,
            Self::Shared => 6.4,
            Self::Flooded => 35.2,
        }
    }

    fn rate_at(self, seconds: f64) -> f64 {
        match self {
            Self::Burst if seconds * MICROS < BURST_WARM_UP => self.rate() / 6.0,
            Self::Chat | Self::LongOutput if seconds % CYCLE < BURST => self.rate() * BURST_FACTOR,
            _ => self.rate(),
        }
    }

    /// All that come within so many seconds.
    pub(crate) fn jobs(self, seed: u64, seconds: u32) -> Vec<Job> {
        let mut dice = Dice::new(seed);
        let mut jobs = Vec::new();
        let mut now = 0.0;
        loop {
            let rate = self.rate_at(now);
            now += dice.gap(rate).as_secs_f64();
            if f64::from(seconds) < now {
                return jobs;
            }
            jobs.push(self.job(now, &mut dice));
        }
    }

    fn job(self, now: f64, dice: &mut Dice) -> Job {
        let at = whole(now * MICROS);
        let (prompt, length, limit) = match self {
            Self::Chat => (skewed(dice, 900.0, 0.6), skewed(dice, 200.0, 0.8), 2_048),
            Self::LongOutput => (skewed(dice, 400.0, 0.5), skewed(dice, 1_800.0, 0.8), 8_192),
            Self::Burst => return burst_job(at, dice),
            Self::Shared => return tenant_job(at, dice, 2),
            Self::Flooded => return tenant_job(at, dice, 11),
        };
        Job { at, prompt, length: length.min(limit), limit, priority: Priority::Default, tenant: 0 }
    }
}

fn burst_job(at: u64, dice: &mut Dice) -> Job {
    let length = if dice.below(10) < 7 { 60 } else { 400 };
    let mut below = |count: usize| u32::try_from(dice.below(count)).unwrap_or(0);
    let priority = match below(10) {
        0..4 => Priority::Flex,
        4..8 => Priority::Default,
        _ => Priority::Priority,
    };
    let (prompt, limit) = (100 + below(300), length * (4 + below(7)));
    Job { at, prompt, length, limit, priority, tenant: 0 }
}

/// One of so many is the first tenant's, and all others the second's.
fn tenant_job(at: u64, dice: &mut Dice, of: usize) -> Job {
    let tenant = u64::from(0 < dice.below(of));
    Job { priority: Priority::Default, tenant, ..burst_job(at, dice) }
}

/// A length around `median`, lognormal.
fn skewed(dice: &mut Dice, median: f64, sigma: f64) -> u32 {
    // Twelve uniform numbers are near enough to a normal one.
    let normal: f64 = (0..12).map(|_| dice.share()).sum::<f64>() - 6.0;
    let length = median * (sigma * normal).exp();
    u32::try_from(whole(length)).unwrap_or(u32::MAX).clamp(16, 30_000)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, not negative")]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}
