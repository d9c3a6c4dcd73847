//! Is a failed attempt made again?

use super::{ATTEMPTS_MAX, Tried};
use crate::fleet::Fleet;

/// How freely failed attempts are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Attempts after the first, at most; [`ATTEMPTS_MAX`] caps it.
    pub extra_attempts_max: u8,
    /// Retries in flight, as a share of all attempts in flight.
    pub share_permille: u16,
    /// Retries in flight that are always allowed, or an idle gateway could not retry at all.
    pub floor: u32,
}

impl Default for RetrySettings {
    /// Two extra attempts; a fifth of what is in flight and three more, the budget that Finagle
    /// and Envoy settled on.
    fn default() -> Self {
        Self { extra_attempts_max: 2, share_permille: 200, floor: 3 }
    }
}

/// Whether to make a failed attempt again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Try another worker.
    Elsewhere,
    /// Tell the client.
    GiveUp(GiveUp),
}

/// Why a failed attempt is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// It has had its attempts.
    Attempts,
    /// Too many retries are in flight: when the whole fleet fails, retrying makes it worse.
    Budget,
}

/// Decides after a failure before the first byte; after the first byte the answer is always no
/// and nobody asks.
///
/// `tried` already holds the worker that failed. Every failure is worth another worker: model
/// servers have no side effects, and a full worker says nothing about its neighbour.
pub fn retry(fleet: &Fleet, settings: RetrySettings, tried: &Tried) -> Verdict {
    let attempts_max = usize::from(settings.extra_attempts_max).saturating_add(1).min(ATTEMPTS_MAX);
    if attempts_max <= tried.attempts() {
        return Verdict::GiveUp(GiveUp::Attempts);
    }
    let share = u64::from(fleet.active()) * u64::from(settings.share_permille) / 1_000;
    if share + u64::from(settings.floor) <= u64::from(fleet.retrying()) {
        return Verdict::GiveUp(GiveUp::Budget);
    }
    Verdict::Elsewhere
}
