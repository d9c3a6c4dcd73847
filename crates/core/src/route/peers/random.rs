//! Random policy: every worker with the same chance.

use super::drawn;
use crate::fleet::WorkerId;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;

pub(in crate::route) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    drawn(scene, decision, |_| true)
}
