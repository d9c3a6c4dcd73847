//! Routing fast path: chooses by cost alone where no worker is in an unusual state.
//!
//! Filling the list of candidates with scores and reasons takes longer than deciding, and it is
//! rarely read. In the usual case every worker takes requests and has been up for a while, none has
//! failed this request, no session is sticky, and the cheapest worker has room. Then cost alone
//! decides.
//!
//! **Invariant:** the fast path chooses the worker that [`decide`](super::decide()) would, for the
//! same reasons, or does not choose.

use overdraft_units::Tokens;

use super::candidate::{Decision, Reason, Room};
use super::cost::{Before, equal_to, pushed_out};
use super::decide::candidate;
use super::decision_scene::Scene;
use super::least_load::rank;
use super::{Choice, Policy, Tried, admitted};
use crate::fleet::WorkerId;

/// Chooses in the usual case; returns whether it did. `decision` then lists only the chosen
/// candidate.
pub(super) fn decide(scene: &Scene<'_>, tried: &Tried, decision: &mut Decision) -> bool {
    decision.begin(scene);
    let seldom = scene.fleet.seldom();
    let warms = scene.now.since(seldom.came_up) < scene.settings.slow_start;
    let sticks = scene.ask.session.is_some() && scene.settings.sticky.is_some();
    if decision.policy != Policy::Cost || 0 < tried.attempts() || warms || sticks || seldom.shares {
        return false;
    }
    let Some((id, is_crowded, cached_most)) = cheapest(scene, tried, decision) else {
        return false;
    };
    let mut chosen = candidate(scene, id, scene.fleet.glance(id), tried);
    let fleet_pace = scene.fleet.prefill_rate().pace();
    chosen.cost = Before::of(scene, fleet_pace, &mut chosen).cost(scene, &chosen);
    chosen.score = chosen.cost.total();
    decision.candidates.push(chosen);
    if admitted::first(scene, id, decision).is_err() {
        return false;
    }
    decision.choice = Choice::Send(id);
    decision.candidates[0].reason = Reason::Chosen;
    decision.eviction_prevented = is_crowded && chosen.room == Room::Fits;
    decision.cached_most = cached_most;
    decision.displaced = pushed_out(scene, &chosen);
    true
}

/// The worker that the policy `cost` chooses, whether any worker would have to evict for this
/// request, and its longest cached prefix at any worker; `None` where a worker needs the full
/// decision.
///
/// A worker whose wait alone exceeds another's total cost is skipped. Therefore the worker with the
/// longest cached prefix is tried first: it is mostly the cheapest.
fn cheapest(
    scene: &Scene<'_>,
    tried: &Tried,
    decision: &mut Decision,
) -> Option<(WorkerId, bool, Tokens)> {
    let serving = scene.fleet.serving(scene.ask.model)?;
    let (mut is_usual, mut is_crowded, mut cached_most) = (true, false, Tokens::ZERO);
    let fleet_pace = scene.fleet.prefill_rate().pace();
    // Costs up to this one may be equal to the least.
    let mut equal = u64::MAX;
    let mut score = |id: WorkerId| {
        let glance = scene.fleet.glance(id);
        let mut candidate = candidate(scene, id, glance, tried);
        is_usual &= glance.is_open && candidate.room != Room::Never;
        is_crowded |= candidate.room == Room::Crowded;
        cached_most = cached_most.max(candidate.cached);
        let before = Before::of(scene, fleet_pace, &mut candidate);
        if equal < before.wait.get() {
            return u64::MAX;
        }
        let score = before.cost(scene, &candidate).total();
        equal = equal.min(equal_to(score));
        score
    };
    let leading = |id: &&WorkerId| scene.prefix.map(|prefix| prefix.matches.leading(**id));
    score(*serving.iter().max_by_key(leading)?);
    decision.scores.clear();
    decision.scores.extend(serving.iter().map(|&id| score(id)));
    let scored = serving.iter().zip(&decision.scores).filter(|(_, score)| **score <= equal);
    let chosen = scored.map(|(id, _)| *id).min_by_key(|&id| rank(scene.fleet, id))?;
    is_usual.then_some((chosen, is_crowded, cached_most))
}
