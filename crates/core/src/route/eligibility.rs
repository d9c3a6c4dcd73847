//! Eligibility and panic routing: which workers may be candidates, ejected ones included.
//!
//! A worker with an open breaker is a candidate when too few others are eligible (*panic*); one
//! that refuses, or is ejected, when no other is left. A half-open worker gets one request as its
//! trial, before the policy decides: a request that has not failed elsewhere yet, so that it has
//! another attempt if this one fails.

use super::Tried;
use super::candidate::{Candidate, Decision, Ejections, Reason, Room};
use super::decision_scene::Scene;
use crate::breaker::Standing;
use crate::fleet::{Acceptance, RefusalKind, Refusals, Worker, WorkerId};

/// What its breaker and its refusals say of a worker that is up.
pub(super) fn reason(scene: &Scene<'_>, worker: &Worker) -> Reason {
    let refusing = match worker.refusals().acceptance(scene.now) {
        Acceptance::Accepting => Reason::Outscored,
        Acceptance::BackingOff | Acceptance::Due | Acceptance::Trying => Reason::Refusing,
    };
    match worker.breaker().standing(scene.fleet.grants(), scene.now) {
        Standing::Closed => refusing,
        Standing::Open => Reason::Open,
        Standing::Due | Standing::Probing => Reason::Probing,
    }
}

/// Whether a request may find out if the worker still fails, or still refuses.
pub(super) fn is_due(scene: &Scene<'_>, worker: &Worker) -> bool {
    let acceptance = worker.refusals().acceptance(scene.now);
    match worker.breaker().standing(scene.fleet.grants(), scene.now) {
        // One that has asked to be left alone has not ended its trial, and is not tried until then.
        Standing::Due => acceptance != Acceptance::BackingOff,
        Standing::Closed => acceptance == Acceptance::Due,
        Standing::Open | Standing::Probing => false,
    }
}

/// Keeps the ejected workers when too few others are eligible, then the least bad last resort.
pub(super) fn keep_best(scene: &Scene<'_>, decision: &mut Decision, tried: &Tried) {
    let any_out = decision.candidates.iter().any(|one| is_out(one.reason));
    if any_out && is_panic(scene, decision) {
        decision.ejections = Ejections::Waived;
        for candidate in decision.candidates.iter_mut().filter(|one| is_out(one.reason)) {
            candidate.reason = Reason::Outscored;
        }
    }
    if decision.open().next().is_some() {
        return;
    }
    let had = tried.workers.iter().flatten().filter_map(|id| had(scene, *id)).min();
    // A request that has been refused is told so, unless a worker may have better news.
    let is_better = |one: &Resort| *one == Resort::Busy || had.is_none_or(|had| *one < had);
    let of = |one: &Candidate| resort(scene, one).filter(is_better);
    let Some(best) = decision.candidates.iter().filter_map(of).min() else { return };
    for candidate in &mut decision.candidates {
        if of(candidate) == Some(best) {
            candidate.reason = Reason::Outscored;
        }
    }
}

/// Last resorts where no worker is eligible, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Resort {
    /// It is full and works: it may have room by now.
    Busy,
    /// It has been full each time that it was tried.
    Full,
    /// It fails its requests.
    Failing,
    /// It would refuse whatever it is sent, but perhaps it has been mended.
    Misconfigured,
    /// It does not answer as it should.
    Slow,
}

impl Resort {
    const fn of(refusals: &Refusals) -> Self {
        match refusals.kind() {
            RefusalKind::Saturated if refusals.is_busy() => Self::Busy,
            RefusalKind::Saturated => Self::Full,
            RefusalKind::Failing => Self::Failing,
            RefusalKind::Misconfigured => Self::Misconfigured,
        }
    }
}

/// What a worker is held to be that has failed this request.
fn had(scene: &Scene<'_>, id: WorkerId) -> Option<Resort> {
    let worker = scene.fleet.worker(id);
    match worker.refusals().acceptance(scene.now) {
        _ if !worker.breaker().is_closed() => Some(Resort::Failing),
        Acceptance::Accepting => None,
        _ => Some(Resort::of(worker.refusals())),
    }
}

fn resort(scene: &Scene<'_>, candidate: &Candidate) -> Option<Resort> {
    match candidate.reason {
        Reason::Refusing => Some(Resort::of(scene.fleet.worker(candidate.worker).refusals())),
        // Without panic who is out is out.
        reason if is_out(reason) && 0 < scene.fleet.breaker_settings().panic_permille => {
            Some(Resort::Failing)
        }
        Reason::LastResort => Some(Resort::Slow),
        _ => None,
    }
}

/// A request that has failed goes to those that are known to answer, where there are any, and that did not deny the last
/// one what it asked for; or to those that at least have not failed the last request that they got.
pub(super) fn keep_proven(scene: &Scene<'_>, decision: &mut Decision) {
    let is_proven = |worker: &Worker| worker.has_answered_lately(scene.now);
    let is_good = |worker: &Worker| worker.is_in_good_standing(scene.now);
    let any = |decision: &Decision, is: &dyn Fn(&Worker) -> bool| {
        decision.open().any(|one| is(scene.fleet.worker(one.worker)))
    };
    let is_undisputed = |worker: &Worker| is_proven(worker) && !worker.refusals().is_disputing();
    let is_kept: &dyn Fn(&Worker) -> bool = match () {
        () if any(decision, &is_undisputed) => &is_undisputed,
        () if any(decision, &is_proven) => &is_proven,
        () if any(decision, &is_good) => &is_good,
        () => return,
    };
    for candidate in decision.open_mut().filter(|one| !is_kept(scene.fleet.worker(one.worker))) {
        candidate.reason = Reason::Unproven;
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
        matches!(one.reason, Reason::Probing | Reason::Refusing | Reason::Outscored)
            && one.room != Room::Never
    };
    let due = |one: &&Candidate| is_due(scene, scene.fleet.worker(one.worker));
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
