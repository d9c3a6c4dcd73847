//! Placement with admission: walks the candidates until one admits the request, or queues it.
//!
//! Workers are tried in the order of the policy's scores; a worker that would not have been chosen
//! is not tried. One that has room is passed over where waiting for one that has none yet is
//! cheaper for all: mostly the request's prefix lies there, and computing it anew elsewhere delays
//! others and pushes their prefixes out (delay scheduling: Zaharia et al., `EuroSys` 2010). Looks
//! at a forecast, which cost something, are bounded; answers that cost nothing are not.

use overdraft_units::{Micros, Tokens};

use super::candidate::{Candidate, DecidedBy, Decision, Reason};
use super::cost::Before;
use super::decision_scene::Scene;
use super::least_load::rank;
use super::policy::Policy;
use super::{Awaits, Choice};
use crate::admit::{Answer, Asked, Mode, RETRY_AFTER_MAX, judge, retry_after};
use crate::fleet::WorkerId;

/// Maximum forecasts looked at for one decision.
const ADMIT_LOOKS_MAX: usize = 16;

/// How many looks one counts for where the request would have to stand behind others: it is never taken there, and
/// only how long it would wait is learnt.
const LOOK_BEHIND_OTHERS: usize = 3;

/// The worker that a request had best wait for.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    worker: WorkerId,
    awaits: Awaits,
    /// What it costs all to be computed there, the waiting included.
    cost: u64,
}

/// The first worker that takes the request, beginning with `chosen`; or that it waits for one.
pub(super) fn first(
    scene: &Scene<'_>,
    chosen: WorkerId,
    decision: &mut Decision,
) -> Result<WorkerId, Choice> {
    let pace = scene.fleet.prefill_rate().pace();
    let asked = u64::from(scene.ask.prompt.get()) + u64::from(scene.ask.completion.get());
    let waits = scene.settings.admission.mode == Mode::Peak;
    let (mut looks, mut soonest, mut free) = (0, RETRY_AFTER_MAX, 0);
    let mut awaited: Option<Awaited> = None;
    let mut next = place_of(chosen, decision);
    while let Some(place) = next.filter(|_| looks < ADMIT_LOOKS_MAX) {
        let by_cost = decision.policy == Policy::Cost && decision.by == DecidedBy::Policy;
        let candidate = &mut decision.candidates[place];
        let (id, worker) = (candidate.worker, scene.fleet.worker(candidate.worker));
        // A worker that costs more than the best wait is neither taken nor waited for, nor is any after it.
        let is_dearer = |best: Awaited| by_cost && waits && best.cost < candidate.score;
        let is_last = awaited.is_some_and(is_dearer);
        // A longer wait there would change nothing.
        let gain = |best: Awaited| best.cost.saturating_sub(candidate.score);
        let wait_max = awaited.filter(|_| by_cost).map_or(u64::MAX, gain).max(soonest.get());
        let asked = Asked {
            priority: scene.ask.priority,
            portion: scene.ask.portion,
            prospect: scene.ask.prospect,
            own: scene.own(id),
            tokens: asked,
            ahead: scene.ahead(id),
            wait_max: Micros::new(wait_max),
        };
        let judged = judge(worker, &asked, &scene.settings.admission, pace, scene.now);
        candidate.peak = judged.peak;
        let is_behind = waits && asked.ahead.holds(asked.tokens);
        let weight = if is_behind { LOOK_BEHIND_OTHERS } else { 1 };
        looks += weight * usize::from(judged.looked);
        match judged.answer {
            Answer::Taken => {
                let dearer = awaited.filter(|one| one.cost < price(scene, candidate, by_cost));
                if dearer.is_none() || !waits {
                    return Ok(id);
                }
                candidate.reason = Reason::Costlier;
            }
            Answer::Later(wait) => {
                candidate.reason = Reason::Saturated;
                soonest = soonest.min(wait);
                // Where others stand before it and no peak was computed, nobody knows what is left.
                if judged.peak.is_some() || !judged.looked {
                    free = free.max(left(scene, candidate));
                }
                let cost = price(scene, candidate, by_cost).saturating_add(wait.get());
                if awaited.is_none_or(|best| cost < best.cost) {
                    let cached = Tokens::ZERO < candidate.cached;
                    let awaits = if cached { Awaits::Prefix } else { Awaits::Room };
                    awaited = Some(Awaited { worker: id, awaits, cost });
                }
            }
        }
        next = if is_last { None } else { following(scene, decision) };
    }
    let (at, awaits) =
        awaited.map_or((chosen, Awaits::Room), |awaited| (awaited.worker, awaited.awaits));
    Err(Choice::Saturated { asked, free, at, awaits, retry_after: retry_after(soonest) })
}

/// What a request costs on a worker once it is there.
fn price(scene: &Scene<'_>, candidate: &mut Candidate, by_cost: bool) -> u64 {
    if by_cost {
        return candidate.score;
    }
    let fleet_pace = scene.fleet.prefill_rate().pace();
    candidate.cost = Before::of(scene, fleet_pace, candidate).cost(scene, candidate);
    candidate.cost.total()
}

/// Where a worker stands among the candidates, if it is still in the running.
fn place_of(worker: WorkerId, decision: &Decision) -> Option<usize> {
    let mut candidates = decision.candidates.iter();
    candidates.position(|one| one.worker == worker && one.reason == Reason::Outscored)
}

/// Where the one stands whom the policy would have chosen, had there not been those that were asked.
fn following(scene: &Scene<'_>, decision: &mut Decision) -> Option<usize> {
    if decision.by == DecidedBy::Session {
        // Nobody has been scored yet.
        decision.by = DecidedBy::Policy;
        let chosen = decision.policy.choose(scene, decision)?;
        return place_of(chosen, decision);
    }
    // The better score, and of equals the lesser rank, which costs a look at each.
    let lower_is_better = decision.policy.lower_is_better();
    let key = |one: &Candidate| if lower_is_better { one.score } else { u64::MAX - one.score };
    let candidates = decision.candidates.iter().enumerate();
    let open = candidates.filter(|(_, one)| one.reason == Reason::Outscored);
    let best = open.min_by(|(_, one), (_, other)| {
        let equal = || rank(scene.fleet, one.worker).cmp(&rank(scene.fleet, other.worker));
        key(one).cmp(&key(other)).then_with(equal)
    });
    best.map(|(place, _)| place)
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
