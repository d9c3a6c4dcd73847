//! Cost policy: the least expected time to first token (TTFT), plus the delay of other requests.
//!
//! Every cost is a waiting time (docs/design/routing.md, R3 to R6): the queue before the request
//! and its uncached prefill, at the worker's measured pace; the slowdown of others by its decoding;
//! the evictions from a full cache, as the time to recompute them; and the wait where requests in
//! flight fill the cache already. Costs that differ by less than their error count as equal, and
//! load decides.

use overdraft_units::{Micros, Tokens};

use super::candidate::{Candidate, Cost, Decision, Room};
use super::decision_scene::Scene;
use super::least_load::rank;
use crate::admit::Mode;
use crate::estimate::{Pace, STEP_DOUBLES_AT, delayed};
use crate::fleet::{BlockSharing, FOREIGN_PROMPT_TOKENS, Glance, Worker, WorkerId};

/// What is in use and has to be evicted is computed again, and so is what follows.
const CROWDED_FACTOR: u64 = 4;

/// Costs that differ by less than this and a sixteenth are equal.
const TIE: u64 = 2_000;
const TIE_SHARE: u64 = 16;

pub(super) fn choose(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    let fleet_pace = scene.fleet.prefill_rate().pace();
    let mut least = u64::MAX;
    for candidate in decision.open_mut() {
        candidate.cost = Before::of(scene, fleet_pace, candidate).cost(scene, candidate);
        candidate.score = candidate.cost.total();
        least = least.min(candidate.score);
    }
    let equal = equal_to(least);
    decision
        .open()
        .filter(|one| one.score <= equal)
        .min_by_key(|one| rank(scene.fleet, one.worker))
        .map(|one| one.worker)
}

/// Costs up to this one count as equal to the least.
pub(super) const fn equal_to(least: u64) -> u64 {
    least.saturating_add(least / TIE_SHARE).saturating_add(TIE)
}

/// What a worker has to do before the first token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pace: Pace,
    /// Tokens of the prompt that it would compute.
    computed: u64,
    /// Until it has fetched others.
    fetch: Micros,
    /// Until it has computed what stands before, and that.
    pub(super) wait: Micros,
    /// What others wait who come after it.
    behind: Micros,
}

impl Before {
    /// Of `candidate`; notes what stands before the request there.
    #[expect(clippy::inline_always, reason = "where nobody reads the candidate, none is made")]
    #[inline(always)]
    pub(super) fn of(scene: &Scene<'_>, fleet_pace: Pace, candidate: &mut Candidate) -> Self {
        let (id, glance) = (candidate.worker, scene.fleet.glance(candidate.worker));
        let pace = glance.pace_within(fleet_pace);
        let uncached = scene.ask.prompt.checked_sub(candidate.cached).unwrap_or_default();
        let uncached = u64::from(uncached.get());
        let queued = glance.queued(pace, scene.now);
        candidate.queued = queued.unwrap_or_else(|| scene.fleet.worker(id).queued(pace, scene.now));
        let strangers = u64::from(glance.foreign_waiting) * FOREIGN_PROMPT_TOKENS;
        let before = candidate.queued.saturating_add(strangers);
        let (computed, fetch) = match candidate.fetchable {
            Tokens::ZERO => (uncached, Micros::ZERO),
            _ => fetched(scene.fleet.worker(id), candidate, pace, uncached),
        };
        let own = pace.time_for(computed);
        let span = Micros::new(pace.time_for(before).get().saturating_add(own.get()));
        // The step that is under way ends first.
        let step = glance.step_within(scene.fleet.step_bare());
        let wait = Micros::new(span.get().saturating_add(step.get()));
        let behind_milli = scene.behind.at(glance.requests, glance.sent);
        let behind = Micros::new(delayed(own, span, behind_milli));
        Self { pace, computed, fetch, wait, behind }
    }

    /// All that it would cost, and never less than the wait.
    #[expect(
        clippy::inline_always,
        reason = "where nobody reads the parts, only their sum is made"
    )]
    #[inline(always)]
    pub(super) fn cost(self, scene: &Scene<'_>, candidate: &Candidate) -> Cost {
        let glance = scene.fleet.glance(candidate.worker);
        let Self { pace, computed, fetch, wait, behind } = self;
        let completion = scene.ask.completion;
        let uncached = scene.ask.prompt.checked_sub(candidate.cached).unwrap_or_default();
        let fresh = u64::from(uncached.get()) + u64::from(completion.get());
        let whole = u64::from(scene.ask.prompt.get()) + u64::from(completion.get());
        Cost {
            wait,
            behind,
            fetch,
            slowed: slowed(scene, glance, pace.time_for(computed), whole),
            displaced: displaced(scene, candidate, pace),
            crowded: crowded(scene, candidate, pace, fresh),
        }
    }
}

/// Tokens that are left to be computed, and how long the others take to be fetched: nothing is fetched
/// where that was never measured, or takes as long as computing it.
fn fetched(worker: &Worker, candidate: &Candidate, pace: Pace, uncached: u64) -> (u64, Micros) {
    let fetchable = u64::from(candidate.fetchable.get()).min(uncached);
    let BlockSharing::Shared(Some(fetching)) = worker.blocks() else {
        return (uncached, Micros::ZERO);
    };
    let fetch = fetching.time_for(fetchable);
    if fetchable == 0 || pace.time_for(fetchable) <= fetch {
        return (uncached, Micros::ZERO);
    }
    (uncached - fetchable, fetch)
}

/// Every running answer stands still while this prompt is computed, and each of its steps takes longer for every token
/// that this request brings. How much the tokens in the cache slow this request's own answer does not count: they are
/// there now, most of them leave before the answer ends, and the term moved conversations away from their prefixes.
fn slowed(scene: &Scene<'_>, glance: &Glance, prefill: Micros, tokens: u64) -> Micros {
    let beside = u64::from(glance.requests);
    let step = glance.step_bare_within(scene.fleet.step_bare()).get();
    let completion = u64::from(scene.ask.completion.get());
    let decode = completion.saturating_mul(step);
    // On average the others have half of an answer left.
    let others = (decode / 2).saturating_mul(tokens.saturating_mul(beside)) / STEP_DOUBLES_AT;
    let stalled = prefill.get().saturating_mul(beside);
    Micros::new(others.saturating_add(stalled))
}

/// A cache that is full of prefixes loses as many as come in. What is lost is computed again if it is asked
/// for again, which is as likely as that a prompt is found.
fn displaced(scene: &Scene<'_>, candidate: &Candidate, pace: Pace) -> Micros {
    let lost = pace.time_for(pushed_out(scene, candidate)).get();
    Micros::new(lost.saturating_mul(scene.reuse) / 1_000)
}

/// Tokens of prefixes that a request pushes out of a worker's cache.
pub(super) fn pushed_out(scene: &Scene<'_>, candidate: &Candidate) -> u64 {
    let (id, glance) = (candidate.worker, scene.fleet.glance(candidate.worker));
    let (Some(prefix), Some(capacity)) = (scene.prefix, glance.kv_capacity) else { return 0 };
    let uncached = scene.ask.prompt.checked_sub(candidate.cached).unwrap_or_default();
    let fresh = u64::from(uncached.get()) + u64::from(scene.ask.completion.get());
    let blank = u64::from(capacity.get()).saturating_sub(prefix.held(id, glance.block_size));
    fresh.saturating_sub(blank)
}

/// What does not fit beside the requests in flight evicts one of them, and waits until enough has come free for all
/// that is there. Where admission predicts the peak no request is sent to where it does not fit: what it would
/// wait for there is known better, and counted then (`admitted.rs`).
fn crowded(scene: &Scene<'_>, candidate: &Candidate, pace: Pace, fresh: u64) -> Micros {
    let glance = scene.fleet.glance(candidate.worker);
    let (Room::Crowded | Room::Never, Some(capacity)) = (candidate.room, glance.kv_capacity) else {
        return Micros::ZERO;
    };
    if scene.settings.admission.mode == Mode::Peak {
        return Micros::ZERO;
    }
    let over = (glance.kv_booked.saturating_add(fresh)).saturating_sub(capacity.get().into());
    let again = pace.time_for(over.min(fresh)).get().saturating_mul(CROWDED_FACTOR);
    let frees = scene.fleet.worker(candidate.worker).frees_thousand_in();
    let ends = frees.get().saturating_mul(over) / 1_000;
    Micros::new(again.saturating_add(ends))
}
