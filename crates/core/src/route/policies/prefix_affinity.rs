//! Prefix-affinity (cache-aware) policy: the longest prefix match, unless the load is unbalanced.
//!
//! The longest match decides when it is long enough to matter, and balance decides otherwise. The
//! policy exists for comparison.

use crate::fleet::WorkerId;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;
use crate::route::least_load::{least, rank};

/// A match that is shorter than this share of the prompt does not matter, in thousandths.
const MATCH_PERMILLE: u64 = 300;

/// A worker has too much when it has this many requests more than the least loaded one ...
const EXCESS_REQUESTS: u32 = 32;
/// ... and this many times as many.
const EXCESS_FACTOR: u32 = 2;

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let prompt = u64::from(scene.ask.prompt.get()).max(1);
    for candidate in decision.open_mut() {
        candidate.score = u64::from(candidate.cached.get()) * 1_000_000 / prompt;
    }
    let lightest = decision.open().map(|one| one.requests).min()?;
    let longest = decision.open().map(|one| one.score).max()?;
    if longest < MATCH_PERMILLE * 1_000 {
        return least(scene.fleet, decision);
    }
    let best = decision
        .open()
        .filter(|one| one.score == longest)
        .min_by_key(|one| rank(scene.fleet, one.worker))?;
    let too_many = lightest + EXCESS_REQUESTS < best.requests
        && lightest.saturating_mul(EXCESS_FACTOR) < best.requests;
    if too_many { least(scene.fleet, decision) } else { Some(best.worker) }
}
