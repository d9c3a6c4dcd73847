//! Sticky sessions: rendezvous hashing with bounded loads.
//!
//! A session belongs to the worker with the highest hash of worker name and session (rendezvous
//! hashing): when a worker leaves, only its own sessions move, and every gateway moves them alike.
//! A worker above its bounded share of the load is skipped for the next in that order, so a few
//! heavy sessions cannot overload one worker (consistent hashing with bounded loads, Mirrokni et
//! al. 2018).

use super::candidate::{Candidate, Decision, Reason};
use crate::fleet::{Fleet, WorkerId};
use crate::hash_mix::mix;

/// How firmly sessions stick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// The load a worker may have, as a multiple of the mean in thousandths; at least 1,000.
    pub load_permille: u32,
}

impl Default for Sticky {
    /// A quarter above the mean.
    fn default() -> Self {
        Self { load_permille: 1_250 }
    }
}

/// The session's worker among those still in the running.
pub(super) fn choose(
    fleet: &Fleet,
    session: u64,
    sticky: Sticky,
    decision: &mut Decision,
) -> Option<WorkerId> {
    let (count, load) = decision
        .open()
        .fold((0_u64, 0_u64), |(count, load), one| (count + 1, load + u64::from(one.requests)));
    if count == 0 {
        return None;
    }
    // With this request; rounded up, so that an idle fleet has room.
    let bound = (load + 1) * u64::from(sticky.load_permille.max(1_000));
    let bound = bound.div_ceil(count * 1_000);
    let rank = |one: &&mut Candidate| (mix(fleet.worker(one.worker).tag(), session), one.worker);
    loop {
        let first = decision.open_mut().max_by_key(rank)?;
        if u64::from(first.requests) < bound {
            return Some(first.worker);
        }
        first.reason = Reason::Overloaded;
    }
}
