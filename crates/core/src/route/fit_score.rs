//! The write-up's score, verbatim (C2): `free KV × w + free budget × (1 − w)`, the highest wins.
//!
//! Workers without budget for the prompt are skipped. The budget is the cache's capacity less the
//! tokens of what is in flight (C4); a worker whose capacity is unknown counts as empty. The weight
//! is 0.8, or 0.95 for prompts of more than 2,048 tokens.

use overdraft_units::Tokens;

use super::candidate::{Decision, Reason};
use super::least_load::rank;
use super::policy::Scene;
use crate::fleet::{Worker, WorkerId};

/// The weights of free cache against free budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitScore {
    /// For ordinary prompts, in thousandths.
    pub kv_weight_permille: u16,
    /// For long ones, in thousandths.
    pub kv_weight_long_permille: u16,
    /// A prompt of more tokens is long.
    pub long_prompt_tokens: u32,
}

impl Default for FitScore {
    /// The write-up's figures.
    fn default() -> Self {
        Self { kv_weight_permille: 800, kv_weight_long_permille: 950, long_prompt_tokens: 2_048 }
    }
}

/// A share of one, in millionths.
const WHOLE: u64 = 1_000_000;

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let prompt = scene.ask.prompt;
    for candidate in decision.open_mut() {
        let worker = scene.fleet.worker(candidate.worker);
        if budget(worker).0 < u64::from(prompt.get()) {
            candidate.reason = Reason::NoRoom;
        }
        candidate.score = score(worker, prompt, scene.settings.fit_score);
    }
    decision
        .open()
        .max_by_key(|one| (one.score, core::cmp::Reverse(rank(scene.fleet, one.worker))))
        .map(|one| one.worker)
}

/// How well a prompt fits on a worker, in thousandths: the distribution `router_fit_score` (C6),
/// whoever chose.
pub fn fit_score_permille(worker: &Worker, prompt: Tokens, settings: FitScore) -> u16 {
    u16::try_from(score(worker, prompt, settings) / 1_000).unwrap_or(1_000)
}

/// In millionths.
fn score(worker: &Worker, prompt: Tokens, settings: FitScore) -> u64 {
    let weight = if settings.long_prompt_tokens < prompt.get() {
        settings.kv_weight_long_permille
    } else {
        settings.kv_weight_permille
    };
    let weight = u64::from(weight.min(1_000));
    let (free, capacity) = budget(worker);
    (free_kv(worker) * weight + share(free, capacity) * (1_000 - weight)) / 1_000
}

/// Free cache as the worker reported it, in millionths.
fn free_kv(worker: &Worker) -> u64 {
    let used = worker.scraped().and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
    WHOLE.saturating_sub(u64::from(used) * 1_000)
}

/// Free and whole token budget; without bound while the capacity is unknown.
fn budget(worker: &Worker) -> (u64, u64) {
    match worker.kv_capacity() {
        Some(capacity) => {
            let capacity = u64::from(capacity.get());
            (capacity.saturating_sub(worker.tokens()), capacity)
        }
        None => (u64::MAX, u64::MAX),
    }
}

fn share(free: u64, whole: u64) -> u64 {
    if whole == u64::MAX { WHOLE } else { free.saturating_mul(WHOLE) / whole.max(1) }
}
