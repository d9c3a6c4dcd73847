//! Round-robin policy: the least recently used worker; the baseline of every comparison.

use crate::fleet::WorkerId;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    for candidate in decision.open_mut() {
        candidate.score = scene.fleet.worker(candidate.worker).started_last();
    }
    decision.open().min_by_key(|one| (one.score, one.worker)).map(|one| one.worker)
}
