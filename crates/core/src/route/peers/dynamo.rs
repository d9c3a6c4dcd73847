//! KV-aware policy of NVIDIA Dynamo 1.6 at its default weights and temperature 0.
//!
//! The cost of a worker is the prefill that it still has to do, this prompt's part that it does not
//! hold included, plus the KV cache that its running requests hold; the least cost wins. Dynamo counts
//! blocks; here both terms are tokens, which ranks workers alike. Both are what the router booked
//! itself, not what it scraped.

use super::drawn;
use crate::fleet::WorkerId;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;

pub(in crate::route) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let prompt = u64::from(scene.ask.prompt.get());
    for candidate in decision.open_mut() {
        let glance = scene.fleet.glance(candidate.worker);
        let uncached = prompt.saturating_sub(u64::from(candidate.cached.get()));
        let prefill = glance.prefill_tokens().saturating_add(uncached);
        candidate.score = prefill.saturating_add(glance.tokens);
    }
    let least = decision.open().map(|one| one.score).min()?;
    drawn(scene, decision, |one| one.score == least)
}
