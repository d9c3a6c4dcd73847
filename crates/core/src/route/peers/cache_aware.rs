//! Cache-aware policy of vllm-router 0.1 and sglang-router 0.3, with their default thresholds.
//!
//! Where the load is out of balance, the least loaded worker gets the request. Elsewhere it goes to
//! the worker with the longest match, if that is more than 0.3 of the prompt, and to the least
//! loaded one if not. Load is the number of requests that the router itself has in flight.

use crate::fleet::WorkerId;
use crate::route::candidate::Decision;
use crate::route::decision_scene::Scene;
use crate::route::least_load::{least, rank};

/// `--cache-threshold`: a match must be more than this share of the prompt, in thousandths.
const CACHE_THRESHOLD_PERMILLE: u64 = 300;
/// `--balance-abs-threshold`: requests between the greatest and the least load.
const BALANCE_ABS: u32 = 64;
/// `--balance-rel-threshold`: the greatest load as a multiple of the least, in percent.
const BALANCE_REL_PERCENT: u64 = 150;

pub(in crate::route) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let prompt = u64::from(scene.ask.prompt.get()).max(1);
    for candidate in decision.open_mut() {
        candidate.score = u64::from(candidate.cached.get()) * 1_000_000 / prompt;
    }
    let loads = || decision.open().map(|one| one.requests);
    let (lightest, heaviest) = (loads().min()?, loads().max()?);
    let is_unbalanced = BALANCE_ABS < heaviest - lightest
        && u64::from(lightest) * BALANCE_REL_PERCENT < u64::from(heaviest) * 100;
    let longest = decision.open().map(|one| one.score).max()?;
    if is_unbalanced || longest <= CACHE_THRESHOLD_PERMILLE * 1_000 {
        return least(scene.fleet, decision);
    }
    let best = decision.open().filter(|one| one.score == longest).map(|one| one.worker);
    best.min_by_key(|&worker| rank(scene.fleet, worker))
}
