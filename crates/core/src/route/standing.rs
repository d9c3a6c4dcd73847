//! Which workers may be asked at all, whatever the policy thinks of them?
//!
//! A worker whose breaker is open is asked when too few others can be (*panic*) and when nobody else
//! is left. One whose time out is over gets one request as its trial, before any policy is asked: one
//! that has not failed elsewhere yet, so that it has another attempt if this one fails.

use super::Tried;
use super::candidate::{Candidate, Decision, Ejections, Reason, Room};
use super::policy::Scene;
use crate::breaker::Standing;
use crate::fleet::{Worker, WorkerId};

/// What its breaker says of a worker that is up.
pub(super) fn reason(scene: &Scene<'_>, worker: &Worker) -> Reason {
    match worker.breaker().standing(scene.fleet.grants(), scene.now) {
        Standing::Closed => Reason::Outscored,
        Standing::Open => Reason::Open,
        Standing::Due | Standing::Probing => Reason::Probing,
    }
}

/// Workers that are out are asked when too few others can be, then whoever answers at all.
pub(super) fn keep_best(scene: &Scene<'_>, decision: &mut Decision) {
    let any_out = decision.candidates.iter().any(|one| is_out(one.reason));
    if any_out && is_panic(scene, decision) {
        decision.ejections = Ejections::Waived;
        readmit(decision, is_out);
    }
    let resorts: [fn(Reason) -> bool; 2] = [is_out, |reason| reason == Reason::LastResort];
    for is_asked in resorts {
        if decision.open().next().is_none() {
            readmit(decision, is_asked);
        }
    }
}

/// What can never fit is not sent where it cannot.
pub(super) fn pass_over_small(decision: &mut Decision) {
    for candidate in decision.open_mut() {
        if candidate.room == Room::Never {
            candidate.reason = Reason::NoRoom;
        }
    }
}

/// The worker that is due for a trial, if this request may be it.
pub(super) fn trial(scene: &Scene<'_>, decision: &Decision, tried: &Tried) -> Option<WorkerId> {
    if 0 < tried.attempts() {
        return None;
    }
    let fits = |one: &&Candidate| {
        matches!(one.reason, Reason::Probing | Reason::Outscored) && one.room != Room::Never
    };
    let due = |one: &&Candidate| {
        let breaker = scene.fleet.worker(one.worker).breaker();
        breaker.standing(scene.fleet.grants(), scene.now) == Standing::Due
    };
    decision.candidates.iter().filter(fits).find(due).map(|one| one.worker)
}

/// Whether so few can be asked that nothing is won by asking fewer. Who failed this request could
/// still be asked by others.
fn is_panic(scene: &Scene<'_>, decision: &Decision) -> bool {
    let settled = decision.candidates.iter().filter(|one| one.reason != Reason::Draining);
    let askable = |one: &Candidate| {
        let worker = scene.fleet.worker(one.worker);
        worker.health().is_up() && worker.breaker().is_closed()
    };
    let (askable, workers) = settled
        .fold((0, 0), |(asked, workers), one| (asked + usize::from(askable(one)), workers + 1));
    scene.fleet.breaker_settings().is_panic(askable, workers)
}

const fn is_out(reason: Reason) -> bool {
    matches!(reason, Reason::Open | Reason::Probing)
}

/// Puts those back into the running.
fn readmit(decision: &mut Decision, is_asked: fn(Reason) -> bool) {
    for candidate in &mut decision.candidates {
        if is_asked(candidate.reason) {
            candidate.reason = Reason::Outscored;
        }
    }
}
