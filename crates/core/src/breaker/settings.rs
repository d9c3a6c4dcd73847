//! Circuit breaker settings: failure thresholds, ejection time and maximum ejected share.

use overdraft_units::{Micros, split_mix};

use super::STREAK_MAX;

/// Time closed after which one past opening no longer counts for the exponential backoff.
pub const FADE: Micros = Micros::new(60_000_000);

/// How long a granted trial may wait for a request; then other gateways may have it.
pub const GRANT_PATIENCE: Micros = Micros::new(1_000_000);

/// Timeout of a trial; then another may be sent.
pub const TRIAL_PATIENCE: Micros = Micros::new(30_000_000);

/// What can be set about breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Consecutive failures that open it.
    pub failures_in_a_row: u32,
    /// Failures among the attempts of the last ten seconds that open it, in thousandths; zero for
    /// never. Those in a row count as one, however many: they are the other rule's.
    pub failures_permille: u16,
    /// Attempts in those ten seconds below which that share is not looked at.
    pub volume_min: u32,
    /// How long it is open the first time; twice as long each time after.
    pub open_first: Micros,
    /// How long at most.
    pub open_max: Micros,
    /// How far those times are spread to both sides, in thousandths, or breakers that opened together
    /// would send their trials together.
    pub jitter_permille: u16,
    /// Of the workers that serve a model, the share that may be out at once, in thousandths; one may
    /// always, unless none may.
    pub ejected_permille: u16,
    /// Below this share of workers that can be asked, in thousandths, open ones are asked as well:
    /// what fails everywhere is not mended by asking fewer. Zero for never: who is out is out, and
    /// where no worker is left, requests fail without being sent.
    pub panic_permille: u16,
    /// What the spread is drawn from: another number in each gateway.
    pub dice: u64,
}

impl Default for BreakerSettings {
    /// Envoy's five in a row and fifty per cent panic, and times short enough that a worker that was
    /// restarted is found out within a health check or two.
    fn default() -> Self {
        Self {
            failures_in_a_row: 5,
            failures_permille: 500,
            volume_min: 20,
            open_first: Micros::new(10_000_000),
            open_max: Micros::new(300_000_000),
            jitter_permille: 200,
            ejected_permille: 333,
            panic_permille: 500,
            dice: 0,
        }
    }
}

impl BreakerSettings {
    /// How long a breaker is open that has been `streak` times before; `dice` spreads it.
    pub fn open_time(&self, streak: u8, dice: u64) -> Micros {
        let doubled = self.open_first.get().saturating_mul(1 << streak.min(STREAK_MAX));
        let span = doubled.min(self.open_max.get());
        let jitter = u64::from(self.jitter_permille.min(1_000));
        let drawn = split_mix(dice) % (2 * jitter + 1);
        let permille = 1_000 - jitter + drawn;
        let spread = u128::from(span) * u128::from(permille) / 1_000;
        Micros::new(u64::try_from(spread).unwrap_or(u64::MAX))
    }

    /// How many of `workers` may be out at once.
    pub fn ejected_max(&self, workers: usize) -> usize {
        match usize::from(self.ejected_permille.min(1_000)) {
            0 => 0,
            permille => (workers * permille / 1_000).max(1),
        }
    }

    /// Whether so few of `workers` can be asked that open ones are asked as well.
    pub fn is_panic(&self, askable: usize, workers: usize) -> bool {
        askable * 1_000 < workers * usize::from(self.panic_permille.min(1_000))
    }
}
