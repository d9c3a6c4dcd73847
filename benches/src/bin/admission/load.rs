//! Which requests come when?

use overdraft_benches::Dice;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Prompts of a thousand tokens, answers of some hundreds.
    Chat,
    /// Short prompts and answers of thousands.
    LongOutput,
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
}

/// A burst, and the quiet after it, in seconds.
const BURST: f64 = 4.0;
const CYCLE: f64 = 40.0;

/// How much faster requests come in a burst.
const BURST_FACTOR: f64 = 12.0;

const MICROS: f64 = 1e6;

impl Workload {
    pub(crate) const ALL: [Self; 2] = [Self::Chat, Self::LongOutput];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::LongOutput => "long_output",
        }
    }

    /// Requests a second outside of bursts: with them, somewhat more than can be served.
    const fn rate(self) -> f64 {
        match self {
            Self::Chat => 7.0,
            Self::LongOutput => 2.0,
        }
    }

    /// All that come within so many seconds.
    pub(crate) fn jobs(self, seed: u64, seconds: u32) -> Vec<Job> {
        let mut dice = Dice::new(seed);
        let mut jobs = Vec::new();
        let mut now = 0.0;
        loop {
            let rate = if now % CYCLE < BURST { self.rate() * BURST_FACTOR } else { self.rate() };
            now += dice.gap(rate).as_secs_f64();
            if f64::from(seconds) < now {
                return jobs;
            }
            jobs.push(self.job(now, &mut dice));
        }
    }

    fn job(self, now: f64, dice: &mut Dice) -> Job {
        let (prompt, length, limit) = match self {
            Self::Chat => (skewed(dice, 900.0, 0.6), skewed(dice, 200.0, 0.8), 2_048),
            Self::LongOutput => (skewed(dice, 400.0, 0.5), skewed(dice, 1_800.0, 0.8), 8_192),
        };
        Job { at: whole(now * MICROS), prompt, length: length.min(limit), limit }
    }
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
