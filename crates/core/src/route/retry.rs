//! Retry budget: whether a failed attempt is made again at another worker.
//!
//! The first retry of a request, from a worker that failed it to an eligible one, is free: the
//! request should have gone there. Further retries are bounded by a budget of all retries in
//! flight, because a fleet that fails as a whole would only get more load (a retry storm).

use overdraft_units::{Instant, Micros};

use super::{ATTEMPTS_MAX, RouteSettings, Tried};
use crate::admit::AdmitSettings;
use crate::fleet::{Failure, Fleet};

/// Limits of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// Maximum attempts after the first; [`ATTEMPTS_MAX`] caps it.
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
    /// Return the error to the client.
    GiveUp(GiveUp),
}

/// Why a failed attempt is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// It has had its attempts.
    Attempts,
    /// Too many retries are in flight: when the whole fleet fails, retrying makes it worse.
    Budget,
    /// All workers there are say the same of it, or two do of which one serves others: it is the request.
    Agreed,
}

/// Whether a request may be kept back for others' sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It may.
    Judged,
    /// It had its turn, and it was not for want of room that it failed.
    Waived,
}

impl Strictness {
    /// How the next attempt is placed. Where a worker had no room, others are not overrun.
    pub const fn after(failure: Failure) -> Self {
        match failure {
            Failure::Saturated => Self::Judged,
            Failure::Unreachable
            | Failure::NoConnection
            | Failure::Local
            | Failure::Broken
            | Failure::Silent
            | Failure::Misconfigured
            | Failure::Disputed
            | Failure::Faulty => Self::Waived,
        }
    }

    /// How such a request is routed.
    pub fn over(self, settings: &RouteSettings) -> RouteSettings {
        match self {
            Self::Judged => *settings,
            Self::Waived => RouteSettings { admission: AdmitSettings::off(), ..*settings },
        }
    }
}

/// Pause before the only worker of a model is asked a second time.
const SECOND_TRY_AFTER: Micros = Micros::new(250_000);

/// Whether the only worker of a model may be asked a second time by a request that it has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondTry {
    is_spent: bool,
}

impl SecondTry {
    /// After which pause it is asked once more; none where that would not help, or has been done.
    ///
    /// A connection that was reset, or one error of a server, mostly passes. A worker that said nothing in time is not
    /// asked again.
    pub fn pause(&mut self, failure: Failure) -> Option<Micros> {
        let passes = matches!(failure, Failure::Broken | Failure::Faulty);
        let is_due = passes && !self.is_spent;
        self.is_spent |= passes;
        is_due.then_some(SECOND_TRY_AFTER)
    }
}

/// Decides after a failure before the first byte of an answer to a request for `model`; after the first
/// byte the answer is always no and nobody asks.
///
/// `tried` already holds the worker that failed. Every failure is worth another worker: model
/// servers have no side effects, and a full worker says nothing about its neighbour.
pub fn retry(
    fleet: &Fleet,
    settings: RetrySettings,
    model: &str,
    tried: &Tried,
    now: Instant,
) -> Verdict {
    if tried.is_agreed() || is_unanimous(fleet, model, tried) {
        return Verdict::GiveUp(GiveUp::Agreed);
    }
    let attempts_max = usize::from(settings.extra_attempts_max).saturating_add(1).min(ATTEMPTS_MAX);
    if attempts_max <= tried.attempts() {
        return Verdict::GiveUp(GiveUp::Attempts);
    }
    let share = u64::from(fleet.active()) * u64::from(settings.share_permille) / 1_000;
    let is_within = u64::from(fleet.retrying()) < share + u64::from(settings.floor);
    if is_within || is_first_escape(fleet, model, tried, now) {
        return Verdict::Elsewhere;
    }
    Verdict::GiveUp(GiveUp::Budget)
}

/// Whether nobody is left who could say anything else.
fn is_unanimous(fleet: &Fleet, model: &str, tried: &Tried) -> bool {
    let serving = fleet.serving(model).unwrap_or_default();
    let mut askable = serving.iter().filter(|id| {
        let worker = fleet.worker(**id);
        worker.health().is_up() && !worker.is_draining()
    });
    tried.disputing().next().is_some()
        && askable.all(|id| tried.disputing().any(|other| other == *id))
}

/// Whether it has failed once and a worker is there that serves, as far as is known.
fn is_first_escape(fleet: &Fleet, model: &str, tried: &Tried, now: Instant) -> bool {
    let serves = |id| !tried.has(id) && fleet.worker(id).is_in_good_standing(now);
    let serving = fleet.serving(model).unwrap_or_default();
    tried.attempts() == 1 && serving.iter().any(|&id| serves(id))
}
