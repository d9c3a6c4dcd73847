//! Where does this request go, and where next if that fails?
//!
//! A policy is a function from the fleet and the ask to a [`Choice`]. [`least_load`] is the first:
//! fewest attempts in flight, then fewest estimated tokens, then whoever got work longest ago, so
//! an idle fleet is walked through in turn. [`retry`] says whether a failed attempt may be made
//! again; it is always made elsewhere.
//!
//! Invariant: a worker that is draining, down, or has failed this request is never chosen while
//! another that serves the model is up; ties break by the inputs alone, so equal fleets choose
//! alike.

#[cfg(test)]
mod tests;

use overdraft_units::Tokens;

use crate::fleet::{Fleet, Worker, WorkerId};

/// Most attempts one request may ever take, whatever the settings say.
pub const ATTEMPTS_MAX: usize = 8;

/// What a request wants, as far as routing is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The model it names.
    pub model: &'a str,
    /// Estimated tokens it will hold: its prompt's and those it may generate.
    pub tokens: Tokens,
}

/// A routing decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send it there.
    Send(WorkerId),
    /// Nobody ever served this model.
    UnknownModel,
    /// Nobody who serves it can be asked now.
    NoneUp,
    /// Everybody who could be asked has failed this request already.
    NoneLeft,
}

/// The workers that have failed a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried {
    workers: [Option<WorkerId>; ATTEMPTS_MAX],
}

impl Tried {
    /// Remembers one more failure; beyond [`ATTEMPTS_MAX`] there is nothing left to decide.
    pub fn add(&mut self, worker: WorkerId) {
        if let Some(free) = self.workers.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(worker);
        }
    }

    /// Failed attempts so far.
    pub fn attempts(&self) -> usize {
        self.workers.iter().flatten().count()
    }

    fn has(&self, worker: WorkerId) -> bool {
        self.workers.contains(&Some(worker))
    }
}

/// Chooses the worker with the least in flight.
pub fn least_load(fleet: &Fleet, ask: Ask<'_>, tried: &Tried) -> Choice {
    let Some(serving) = fleet.serving(ask.model) else { return Choice::UnknownModel };
    let mut failed_this_one = false;
    let mut best: Option<(Rank, WorkerId)> = None;
    for &id in serving {
        let Some(rank) = rank(fleet.worker(id)) else { continue };
        if tried.has(id) {
            failed_this_one = true;
        } else if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, id));
        }
    }
    match best {
        Some((_, id)) => Choice::Send(id),
        None if failed_this_one => Choice::NoneLeft,
        None => Choice::NoneUp,
    }
}

/// Lower is better: standing, attempts, tokens, and how lately it got work.
type Rank = (Standing, u32, u64, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Up,
    LastResort,
}

/// How a worker compares; `None` if it must not be asked at all.
fn rank(worker: &Worker) -> Option<Rank> {
    let standing = match worker.health() {
        _ if worker.is_draining() => return None,
        health if health.is_up() => Standing::Up,
        health if health.is_last_resort() => Standing::LastResort,
        _ => return None,
    };
    Some((standing, worker.requests(), worker.tokens(), worker.started_last()))
}

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
