//! Does the chosen worker take the request, and if it does not, who does?
//!
//! Workers are asked in the order of the policy's scores, and only those are: a worker that would
//! not have been chosen is not looked at. Looks at a predicted peak, which cost something, are
//! bounded; answers that cost nothing are not.

use core::cmp::Reverse;

use super::Choice;
use super::candidate::{Candidate, Decision, Reason};
use super::least_load::rank;
use super::policy::Scene;
use crate::admit::{Answer, Asked, RETRY_AFTER_MAX, judge, retry_after};
use crate::fleet::WorkerId;

/// Predicted peaks that are looked at for one decision, at most.
const ADMIT_LOOKS_MAX: usize = 16;

/// The first worker that takes the request, beginning with `chosen`; or that none does.
pub(super) fn first(
    scene: &Scene<'_>,
    chosen: WorkerId,
    decision: &mut Decision,
) -> Result<WorkerId, Choice> {
    let pace = scene.fleet.prefill_rate().pace();
    let (mut looks, mut soonest, mut free) = (0, RETRY_AFTER_MAX, 0);
    let mut next = Some(chosen);
    while let Some(id) = next.filter(|_| looks < ADMIT_LOOKS_MAX) {
        let worker = scene.fleet.worker(id);
        let Some(candidate) = decision.open_mut().find(|one| one.worker == id) else { break };
        let asked = Asked {
            priority: scene.ask.priority,
            portion: scene.ask.portion,
            prospect: scene.ask.prospect,
            own: scene.own(id),
        };
        let judged = judge(worker, &asked, &scene.settings.admission, pace, scene.now);
        candidate.peak = judged.peak;
        let Answer::Later(wait) = judged.answer else { return Ok(id) };
        candidate.reason = Reason::Saturated;
        looks += usize::from(judged.peak.is_some());
        soonest = soonest.min(wait);
        free = free.max(left(scene, candidate));
        next = following(scene, decision);
    }
    let asked = u64::from(scene.ask.prompt.get()) + u64::from(scene.ask.completion.get());
    Err(Choice::Saturated { asked, free, retry_after: retry_after(soonest) })
}

/// Whom the policy would have chosen, had there not been those that were asked.
fn following(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    if decision.stuck {
        // The session decided and nobody has been scored yet.
        decision.stuck = false;
        return decision.policy.choose(scene, decision);
    }
    let rank = |one: &Candidate| rank(scene.fleet, one.worker);
    let next = if decision.policy.lower_is_better() {
        decision.open().min_by_key(|one| (one.score, rank(one)))
    } else {
        decision.open().min_by_key(|one| (Reverse(one.score), rank(one)))
    };
    next.map(|one| one.worker)
}

/// Tokens of a worker's cache that what is in flight there will not need.
fn left(scene: &Scene<'_>, candidate: &Candidate) -> u64 {
    let worker = scene.fleet.worker(candidate.worker);
    let capacity = worker.kv_capacity().map_or(0, |capacity| u64::from(capacity.get()));
    match candidate.peak {
        Some(peak) => {
            let own = u64::from(scene.ask.prompt.get()) + u64::from(scene.ask.completion.get());
            capacity.saturating_sub(peak.saturating_sub(own))
        }
        None => candidate.free.unwrap_or(0),
    }
}
