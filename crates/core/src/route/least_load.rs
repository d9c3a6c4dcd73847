//! Least-load policy: the fewest requests, then the fewest tokens, then the least recently used.

use super::candidate::Decision;
use super::decision_scene::Scene;
use crate::fleet::{Fleet, WorkerId};

/// Lower is better; ours and others' requests, our tokens, and how lately it got work.
pub(super) type Rank = (u32, u64, u64);

pub(super) fn rank(fleet: &Fleet, worker: WorkerId) -> Rank {
    let glance = fleet.glance(worker);
    (glance.requests, glance.tokens, glance.started_last)
}

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    for candidate in decision.open_mut() {
        candidate.score = u64::from(candidate.requests);
    }
    least(scene.fleet, decision)
}

/// The least loaded of those still in the running.
pub(super) fn least(fleet: &Fleet, decision: &Decision) -> Option<WorkerId> {
    decision.open().map(|one| one.worker).min_by_key(|&worker| rank(fleet, worker))
}
