//! Fit-score policy, the write-up's formula (C2): `free KV × w + free budget × (1 − w)`, highest
//! wins.
//!
//! Workers without budget for the prompt are skipped. The budget is what the worker reports as free:
//! its maximum less the share in use that it said last, less what this gateway has sent it since (C4).
//! Its maximum is `token_budget` where that is set, or the capacity that it reports, or else 8,192
//! tokens; a worker that has never reported counts as empty. The weight is 0.8, or 0.95 for prompts
//! of more than 2,048 tokens.

use overdraft_units::Tokens;

use super::candidate::{Decision, Reason};
use super::decision_scene::Scene;
use super::least_load::rank;
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
    /// Tokens that a worker may hold at most, whatever it says of its capacity: the write-up's
    /// `max_num_batched_tokens`.
    pub token_budget: Option<u32>,
}

/// The budget of a worker that says how much is in use and not of how much: vLLM's
/// `max_num_batched_tokens` in the write-up.
const TOKEN_BUDGET: u32 = 8_192;

impl Default for FitScore {
    /// The write-up's figures.
    fn default() -> Self {
        Self {
            kv_weight_permille: 800,
            kv_weight_long_permille: 950,
            long_prompt_tokens: 2_048,
            token_budget: None,
        }
    }
}

/// A share of one, in millionths.
const WHOLE: u64 = 1_000_000;

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let (prompt, settings) = (scene.ask.prompt, scene.settings.fit_score);
    for candidate in decision.open_mut() {
        let worker = scene.fleet.worker(candidate.worker);
        let (free, _) = budget(worker, settings);
        // Of a picture in a prompt nobody knows how many tokens it comes to.
        let is_known = Tokens::ZERO < scene.ask.prompt_least();
        if is_known && free < u64::from(prompt.get()) {
            candidate.reason = Reason::NoRoom;
            // What a refusal tells.
            candidate.free = Some(free);
        }
        candidate.score = score(worker, prompt, settings);
    }
    decision
        .open()
        .max_by_key(|one| (one.score, core::cmp::Reverse(rank(scene.fleet, one.worker))))
        .map(|one| one.worker)
}

/// How well a prompt fits on a worker, in thousandths: the distribution `router_fit_score` (C6),
/// whichever policy chose. To be asked before the request is booked there, or it is not what decided.
pub(super) fn fit_score_permille(worker: &Worker, prompt: Tokens, settings: FitScore) -> u16 {
    u16::try_from((score(worker, prompt, settings) + 500) / 1_000).unwrap_or(1_000)
}

/// In millionths.
fn score(worker: &Worker, prompt: Tokens, settings: FitScore) -> u64 {
    let weight = if settings.long_prompt_tokens < prompt.get() {
        settings.kv_weight_long_permille
    } else {
        settings.kv_weight_permille
    };
    let weight = u64::from(weight.min(1_000));
    let (free, whole) = budget(worker, settings);
    (free_kv(worker) * weight + share(free, whole) * (1_000 - weight)) / 1_000
}

/// Free cache as the worker reported it, in millionths.
fn free_kv(worker: &Worker) -> u64 {
    let used = worker.scraped().and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
    WHOLE.saturating_sub(u64::from(used) * 1_000)
}

impl FitScore {
    /// The whole budget of a worker; none while it has said nothing.
    pub(super) fn most(self, worker: &Worker) -> Option<u64> {
        let reported = worker.scraped()?.kv_capacity.map(Tokens::get);
        Some(u64::from(self.token_budget.or(reported).unwrap_or(TOKEN_BUDGET)))
    }
}

/// Free and whole token budget; without bound while the worker has said nothing.
fn budget(worker: &Worker, settings: FitScore) -> (u64, u64) {
    let Some(whole) = settings.most(worker) else { return (u64::MAX, u64::MAX) };
    let used = worker.scraped().and_then(|scraped| scraped.kv_use_permille).unwrap_or(0);
    let used = whole * u64::from(used.min(1_000));
    let used = (used + 500) / 1_000;
    (whole.saturating_sub(used).saturating_sub(worker.sent_since()), whole)
}

fn share(free: u64, whole: u64) -> u64 {
    if whole == u64::MAX { WHOLE } else { free.saturating_mul(WHOLE) / whole.max(1) }
}
