//! Routing decision: from the fleet and a request to a choice with its reasons.

use overdraft_units::{Instant, Tokens};

use super::canary::Arm;
use super::candidate::{Candidate, Cost, DecidedBy, Decision, Reason, Room};
use super::decision_scene::Scene;
use super::settings::RouteSettings;
use super::{Ask, Choice, Policy, Tried, admitted, cost, eligibility, sticky};
use crate::fleet::{Fleet, Glance, Seldom, WorkerId};
use crate::transfer::FETCH_TOKENS_MIN;

/// Decides where a request goes; `decision` is filled anew and keeps its memory. Of every worker
/// that serves the model it says what spoke for it; who holds the prompt's beginning is not known.
pub fn decide(
    fleet: &Fleet,
    ask: Ask<'_>,
    tried: &Tried,
    settings: &RouteSettings,
    now: Instant,
    decision: &mut Decision,
) {
    let behind = fleet.behind();
    let scene = Scene { fleet, ask, prefix: None, line: None, reuse: 0, behind, settings, now };
    decide_in(&scene, tried, decision);
}

/// The same, where others may wait.
pub(super) fn decide_in(scene: &Scene<'_>, tried: &Tried, decision: &mut Decision) {
    let Scene { fleet, ask, settings, .. } = *scene;
    decision.begin(scene);
    let Some(serving) = fleet.serving(ask.model) else { return };
    let mut rare = Rare::of(scene);
    decision.candidates.extend(serving.iter().map(|&id| {
        let glance = fleet.glance(id);
        let candidate = candidate(scene, id, glance, tried);
        rare.note(scene, &candidate);
        candidate
    }));
    let cached = decision.candidates.iter().map(|one| one.cached).max();
    decision.cached_most = cached.unwrap_or_default();
    let holder = rare.shares.then(|| note_fetchable(scene, decision)).flatten();
    if rare.is_shut {
        eligibility::keep_best(scene, decision, tried);
    }
    if rare.is_small {
        eligibility::pass_over_small(decision);
    }
    if rare.warms {
        hold_back_warming(scene, decision);
    }
    if 0 < tried.attempts() {
        eligibility::keep_proven(scene, decision);
    }
    // Before the others are found wanting: where all are out, only a trial brings one back.
    let trial = rare.is_due.then(|| eligibility::trial(scene, decision, tried)).flatten();
    if let Some(id) = trial {
        decision.by = DecidedBy::Trial;
        settle(scene, decision, holder, rare.is_crowded, id);
        return;
    }
    if let Some(choice) = nobody(scene, decision) {
        decision.choice = choice;
        return;
    }
    let sticks = ask.session.zip(settings.sticky);
    let chosen = sticks.and_then(|(session, to)| sticky::choose(fleet, session, to, decision));
    if chosen.is_some() {
        decision.by = DecidedBy::Session;
    }
    let chosen = chosen.or_else(|| decision.policy.choose(scene, decision));
    match chosen.map(|first| admitted::first(scene, first, decision)) {
        Some(Ok(id)) => settle(scene, decision, holder, rare.is_crowded, id),
        Some(Err(saturated)) => decision.choice = saturated,
        None => decision.choice = no_room(scene, decision),
    }
}

/// What is true of few workers at most times. Where it is of none, nobody has to look at each of
/// them for it again.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
struct Rare {
    /// A worker of the fleet came up a moment ago.
    warms: bool,
    /// A worker is due for a trial.
    is_due: bool,
    /// A worker of the fleet shares the blocks of its cache.
    shares: bool,
    /// A worker cannot be asked.
    is_shut: bool,
    /// A worker's cache is too small for the request.
    is_small: bool,
    /// A worker would have to evict for it what is in use.
    is_crowded: bool,
}

impl Rare {
    fn of(scene: &Scene<'_>) -> Self {
        let Seldom { came_up, shares } = scene.fleet.seldom();
        let warms = scene.now.since(came_up) < scene.settings.slow_start;
        Self { warms, shares, ..Self::default() }
    }

    #[inline]
    fn note(&mut self, scene: &Scene<'_>, candidate: &Candidate) {
        self.is_small |= candidate.room == Room::Never;
        self.is_crowded |= candidate.room == Room::Crowded;
        if candidate.reason != Reason::Outscored {
            self.is_shut = true;
            let worker = scene.fleet.worker(candidate.worker);
            self.is_due |= worker.health().is_up() && eligibility::is_due(scene, worker);
        }
    }
}

#[expect(clippy::inline_always, reason = "where nobody reads the candidate, none is made")]
#[inline(always)]
pub(super) fn candidate(
    scene: &Scene<'_>,
    id: WorkerId,
    glance: &Glance,
    tried: &Tried,
) -> Candidate {
    let reason = match () {
        () if tried.has(id) || !glance.is_open => shut(scene, id, tried),
        () => Reason::Outscored,
    };
    let prompt = scene.ask.prompt;
    let cached = scene.prefix.map_or(Tokens::ZERO, |prefix| prefix.cached(id, prompt));
    let (free, room) = room(scene, glance, cached);
    Candidate {
        worker: id,
        reason,
        score: 0,
        cached,
        fetchable: Tokens::ZERO,
        queued: glance.prefill_tokens(),
        requests: glance.requests,
        free,
        room,
        peak: None,
        cost: Cost::default(),
    }
}

/// Why a worker is not asked as all others are.
#[cold]
fn shut(scene: &Scene<'_>, id: WorkerId, tried: &Tried) -> Reason {
    let worker = scene.fleet.worker(id);
    match worker.health() {
        _ if worker.is_draining() => Reason::Draining,
        _ if tried.has(id) => Reason::Tried,
        health if health.is_up() => eligibility::reason(scene, worker),
        health if health.is_last_resort() => Reason::LastResort,
        _ => Reason::Down,
    }
}

fn room(scene: &Scene<'_>, glance: &Glance, cached: Tokens) -> (Option<u64>, Room) {
    let (Some(capacity), Some(free)) = (glance.kv_capacity, glance.kv_free()) else {
        return (None, Room::Unknown);
    };
    let capacity = u64::from(capacity.get());
    let prompt = u64::from(scene.ask.prompt.get());
    let fresh =
        prompt.saturating_sub(u64::from(cached.get())) + u64::from(scene.ask.completion.get());
    let room = match () {
        () if capacity < u64::from(scene.ask.prompt_least().get()) => Room::Never,
        () if free < fresh => Room::Crowded,
        () => Room::Fits,
    };
    (Some(free), room)
}

/// A worker that came up a moment ago has cold caches: it gets a growing share of what those that
/// are warm have. Where nobody is warm, nobody is held back.
fn hold_back_warming(scene: &Scene<'_>, decision: &mut Decision) {
    let warmth = |one: &Candidate| {
        let worker = scene.fleet.worker(one.worker);
        worker.warmth_permille(scene.settings.slow_start, scene.now)
    };
    let (mut count, mut load, mut warming) = (0_u64, 0_u64, false);
    for one in decision.open() {
        if warmth(one) == 1_000 {
            count += 1;
            load += u64::from(one.requests);
        } else {
            warming = true;
        }
    }
    if count == 0 || !warming {
        return;
    }
    for candidate in decision.open_mut() {
        let warmth = u64::from(warmth(candidate));
        let share = (load * warmth).div_ceil(count * 1_000).max(1);
        if warmth < 1_000 && share <= u64::from(candidate.requests) {
            candidate.reason = Reason::Warming;
        }
    }
}

/// Why nobody can be asked, if so.
fn nobody(scene: &Scene<'_>, decision: &Decision) -> Option<Choice> {
    if decision.open().next().is_some() {
        return None;
    }
    let any = |reason| decision.candidates.iter().any(|one| one.reason == reason);
    Some(match () {
        () if any(Reason::NoRoom) => no_room(scene, decision),
        () if any(Reason::Tried) => Choice::NoneLeft,
        () => Choice::NoneUp,
    })
}

fn no_room(scene: &Scene<'_>, decision: &Decision) -> Choice {
    let without = decision.candidates.iter().filter(|one| one.reason == Reason::NoRoom);
    let free = without.filter_map(|one| one.free).max().unwrap_or(0);
    let asked = u64::from(scene.ask.prompt.get());
    let most = never_fits(scene, decision.policy).unwrap_or(u64::MAX);
    Choice::NoRoom { asked, free, most }
}

/// The most that any worker which serves the model could hold, where that is sure to be less than the
/// prompt; whether they are up does not matter.
fn never_fits(scene: &Scene<'_>, policy: Policy) -> Option<u64> {
    let serving = scene.fleet.serving(scene.ask.model)?;
    let capacity = |id: &WorkerId| match policy {
        Policy::FitScore => scene.settings.fit_score.most(scene.fleet.worker(*id)),
        _ => scene.fleet.glance(*id).kv_capacity.map(|tokens| u64::from(tokens.get())),
    };
    let most = serving.iter().map(capacity).try_fold(0, |most, one| Some(one?.max(most)))?;
    let (prompt, least) = (scene.ask.prompt, scene.ask.prompt_least());
    // Who skips workers by an estimate refuses by it, too: to wait would change nothing.
    let goes_by_estimate = policy == Policy::FitScore && Tokens::ZERO < least;
    let asked = if goes_by_estimate { prompt } else { least };
    (most < u64::from(asked.get())).then_some(most)
}

/// Notes what each could fetch from the one that has most of the prompt; both must share blocks. It
/// may be one that takes no requests, as long as it answers.
fn note_fetchable(scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
    scene.prefix?;
    let shares = |one: &Candidate| scene.fleet.worker(one.worker).blocks().is_shared();
    let gives = |one: &&Candidate| {
        one.cached >= FETCH_TOKENS_MIN
            && shares(one)
            && scene.fleet.worker(one.worker).health().is_up()
    };
    // The first of equals, so that the order of the workers decides.
    let best = decision.candidates.iter().rev().filter(gives).max_by_key(|one| one.cached)?;
    let (holder, held) = (best.worker, best.cached);
    for one in &mut decision.candidates {
        let more = held.checked_sub(one.cached).unwrap_or(Tokens::ZERO);
        if FETCH_TOKENS_MIN <= more && shares(one) {
            one.fetchable = more;
        }
    }
    Some(holder)
}

impl Decision {
    /// Forgets the last one, and says who decides this one.
    pub(super) fn begin(&mut self, scene: &Scene<'_>) {
        self.clear();
        let (ask, canary) = (&scene.ask, scene.settings.canary);
        self.arm = canary.map_or(Arm::Baseline, |canary| canary.arm(ask.session, ask.dice));
        self.policy = match (self.arm, canary) {
            (Arm::Canary, Some(canary)) => canary.policy,
            _ => scene.settings.policy,
        };
    }
}

fn settle(
    scene: &Scene<'_>,
    decision: &mut Decision,
    holder: Option<WorkerId>,
    is_crowded: bool,
    id: WorkerId,
) {
    decision.choice = Choice::Send(id);
    let crowded =
        is_crowded && decision.open().any(|one| one.worker != id && one.room == Room::Crowded);
    let chosen = decision.candidates.iter_mut().find(|one| one.worker == id);
    if let Some(chosen) = chosen {
        chosen.reason = Reason::Chosen;
        decision.eviction_prevented = crowded && chosen.room == Room::Fits;
        decision.displaced = cost::pushed_out(scene, chosen);
        decision.source = holder.filter(|_| Tokens::ZERO < chosen.fetchable);
    }
}
