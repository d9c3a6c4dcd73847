//! Policies of other routers, after their documents, for comparison.
//!
//! They answer the question what a fleet's present router would do. Each is our own code: what its
//! authors document as the decision, on what the fleet here knows. Their admission, retries and
//! health checks are not part of it.

pub(super) mod cache_aware;
pub(super) mod dynamo;
pub(super) mod llm_d;
pub(super) mod random;

use super::candidate::{Candidate, Decision};
use super::decision_scene::Scene;
use crate::fleet::WorkerId;
use crate::hash_mix::mix;

/// Keeps these draws apart from others of the same request.
const TIES: u64 = 0x7469_6573;

/// One of the candidates that pass a test, drawn with equal chances.
fn drawn(
    scene: &Scene<'_>,
    decision: &Decision,
    passes: impl Fn(&Candidate) -> bool,
) -> Option<WorkerId> {
    let count = decision.open().filter(|one| passes(one)).count();
    let place = mix(scene.ask.dice, TIES) % u64::try_from(count).unwrap_or(1).max(1);
    let place = usize::try_from(place).unwrap_or(0);
    decision.open().filter(|one| passes(one)).nth(place).map(|one| one.worker)
}
