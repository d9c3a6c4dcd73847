//! Explain records: why a request went where it went.
//!
//! A record describes the decision that was carried out, or a dry run: the same function of the
//! core makes both. Worker names and loads are for operators, so only requests that may use
//! `/admin` get it.

use bytes::Bytes;
use overdraft_core::deadline::Limits;
use overdraft_core::fleet::WorkerId;
use overdraft_core::prefix::{Knowledge, PrefixIndex, Verdict};
use overdraft_core::route::{
    Candidate, Choice, DecidedBy, Decision, PrefixFate, Prompt, Request, RouteSettings, Router,
};
use overdraft_telemetry::metrics::Decided;
use overdraft_units::{Instant, Tokens};
use serde::Serialize;

use super::decision_note::DecisionTrail;
use super::members::Members;

/// Candidates that an explanation tells of at most; the best ones and the chosen one first.
const CANDIDATES_MAX: usize = 64;

/// An explanation as JSON.
#[derive(Serialize)]
struct Document<'a> {
    choice: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    model: &'a str,
    /// The cascade whose draft the model is.
    #[serde(skip_serializing_if = "Option::is_none")]
    cascade: Option<&'a str>,
    policy: &'static str,
    arm: &'static str,
    /// Who decided: `policy`, `session` or `trial`.
    by: &'static str,
    /// Whether the session decided and not the policy.
    sticky: bool,
    prompt_tokens: u32,
    /// Whether the prompt's tokens were counted or estimated from its length.
    tokens: &'static str,
    completion_tokens_expected: u32,
    priority: &'static str,
    /// What becomes of its prefix: warm, or computed anew and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'static str>,
    /// What it would need and what there is, where it has to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    saturated: Option<Saturated>,
    /// How long it may take at the chosen worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<TimeLimits>,
    candidates: Vec<One>,
    #[serde(skip_serializing_if = "is_zero")]
    candidates_left_out: usize,
}

/// The limits of time of an attempt, and what each rests on: `set`, `least`, `measured` or `assumed`.
#[derive(Serialize)]
pub(super) struct TimeLimits {
    first_token_us: u64,
    first_token_by: &'static str,
    total_us: u64,
    total_by: &'static str,
}

#[derive(Serialize)]
struct Saturated {
    asked_tokens: u64,
    free_tokens: u64,
    /// Its prefix there, or room.
    waits_for: &'static str,
    /// Where it is computed soonest, all told.
    waits_at: String,
    retry_after_us: u64,
}

#[derive(Serialize)]
struct One {
    worker: String,
    reason: &'static str,
    /// The policy's verdict, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<u64>,
    cached_tokens: u32,
    #[serde(skip_serializing_if = "is_none")]
    fetchable_tokens: u32,
    cache_known: &'static str,
    queued_tokens: u64,
    requests: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_us: Option<Parts>,
}

/// The parts of `cost`, in microseconds.
#[derive(Serialize)]
struct Parts {
    wait: u64,
    behind: u64,
    #[serde(skip_serializing_if = "is_no_time")]
    fetch: u64,
    slowed: u64,
    displaced: u64,
    crowded: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_none(tokens: &u32) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_no_time(micros: &u64) -> bool {
    *micros == 0
}

/// The explanation of one request's decision, where its client wants one and may have it, and what the
/// log of requests keeps of its decisions, where there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Explanation {
    words: Option<Bytes>,
    /// The cascade whose draft it is about.
    cascade: Option<String>,
    trail: Option<DecisionTrail>,
}

impl Explanation {
    /// It is told with the next decision.
    pub(crate) fn want(&mut self) {
        self.words = Some(Bytes::new());
    }

    /// The same of a decision on the draft of that cascade.
    pub(crate) fn want_of_draft(&mut self, cascade: String) {
        self.want();
        self.cascade = Some(cascade);
    }

    /// From now on decisions are kept.
    pub(crate) fn keep(&mut self) {
        self.trail = Some(DecisionTrail::default());
    }

    /// Where decisions are kept, if they are.
    pub(crate) const fn trail(&mut self) -> Option<&mut DecisionTrail> {
        self.trail.as_mut()
    }

    /// The decisions that were kept; none is kept from now on.
    pub(crate) fn take_trail(&mut self) -> DecisionTrail {
        self.trail.take().unwrap_or_default()
    }

    /// Whether decisions are to be explained.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.words.is_some()
    }

    /// These are the words for the last decision.
    pub(super) fn tell(&mut self, words: Bytes) {
        self.words = Some(words);
    }

    /// The cascade whose draft it is about, where it is about one.
    pub(super) fn cascade(&self) -> Option<&str> {
        self.cascade.as_deref()
    }

    /// The decision that was carried out is told in `other`.
    pub(crate) fn adopt(&mut self, other: Self) {
        self.words = other.words;
    }

    /// The words, where there are any to tell.
    pub(crate) const fn words(&self) -> Option<&Bytes> {
        self.words.as_ref()
    }
}

/// The limits of time of `request` where the last decision sends it.
pub(super) fn limits(
    router: &Router,
    request: Request<'_>,
    settings: &RouteSettings,
    now: Instant,
) -> Option<TimeLimits> {
    let chosen = router.decision().chosen()?;
    let prediction = router.predict(request, chosen.worker, now);
    let Limits { first_token, total } = Limits::of(settings.deadlines, &prediction);
    Some(TimeLimits {
        first_token_us: first_token.after.get(),
        first_token_by: first_token.basis.name(),
        total_us: total.after.get(),
        total_by: total.basis.name(),
    })
}

/// The last decision of `router`, which was about `request`: of the draft of a cascade, if one is named.
pub(super) fn text(
    router: &Router,
    members: &Members,
    request: Request<'_>,
    limits: Option<TimeLimits>,
    cascade: Option<&str>,
) -> Bytes {
    let decision = router.decision();
    let name = |worker: WorkerId| members.upstream(worker).name().to_owned();
    let mut order: Vec<&Candidate> = decision.candidates.iter().collect();
    order.sort_by_key(|one| {
        let score = if decision.policy.lower_is_better() { one.score } else { !one.score };
        (decision.choice != Choice::Send(one.worker), one.reason.name() != "outscored", score)
    });
    let (prompt, completion) = router.expected(request);
    let document = Document {
        choice: choice(decision),
        worker: decision.chosen().map(|chosen| name(chosen.worker)),
        model: request.model,
        cascade,
        policy: decision.policy.name(),
        arm: decision.arm.name(),
        by: decision.by.name(),
        sticky: decision.by == DecidedBy::Session,
        prompt_tokens: prompt.get(),
        tokens: if matches!(request.prompt, Prompt::Counted { .. }) {
            "counted"
        } else {
            "estimated"
        },
        completion_tokens_expected: completion.get(),
        priority: request.priority.name(),
        prefix: decision.prefix_fate().map(PrefixFate::name),
        saturated: match decision.choice {
            Choice::Saturated { asked, free, at, awaits, retry_after } => Some(Saturated {
                asked_tokens: asked,
                free_tokens: free,
                waits_for: awaits.name(),
                waits_at: name(at),
                retry_after_us: retry_after.get(),
            }),
            _ => None,
        },
        limits,
        candidates: order
            .iter()
            .take(CANDIDATES_MAX)
            .map(|one| told(one, decision, router, name(one.worker)))
            .collect(),
        candidates_left_out: order.len().saturating_sub(CANDIDATES_MAX),
    };
    let text = serde_json::to_vec(&document).expect("an explanation has string keys");
    text.into()
}

fn told(one: &Candidate, decision: &Decision, router: &Router, worker: String) -> One {
    let cost = (decision.policy.name() == "cost" && one.cost.total() > 0).then(|| Parts {
        wait: one.cost.wait.get(),
        behind: one.cost.behind.get(),
        fetch: one.cost.fetch.get(),
        slowed: one.cost.slowed.get(),
        displaced: one.cost.displaced.get(),
        crowded: one.cost.crowded.get(),
    });
    One {
        worker,
        reason: one.reason.name(),
        score: decision.score(one),
        cached_tokens: one.cached.get(),
        fetchable_tokens: one.fetchable.get(),
        cache_known: knowledge(router.prefixes(), one.worker),
        queued_tokens: one.queued,
        requests: one.requests,
        free_tokens: one.free,
        cost_us: cost,
    }
}

/// What the matches of a worker rest on, as explanations and metrics call it. They are exact only where
/// answers confirm the reports.
pub(crate) fn knowledge(prefixes: &PrefixIndex, worker: WorkerId) -> &'static str {
    match prefixes.knowledge(worker) {
        Knowledge::Exact if prefixes.verdict(worker) == Verdict::Confirmed => "exact",
        Knowledge::Exact => "reported",
        Knowledge::Disputed { .. } => "disputed",
        Knowledge::Stale => "stale",
        Knowledge::Estimated { .. } => "estimated",
    }
}

pub(super) const fn choice(decision: &Decision) -> &'static str {
    match decision.choice {
        Choice::Send(_) => "send",
        Choice::UnknownModel => "unknown_model",
        Choice::NoneUp => "none_up",
        Choice::NoneLeft => "none_left",
        Choice::NoRoom { .. } => "no_room",
        Choice::Saturated { .. } => "saturated",
    }
}

/// What metrics want of a decision, taken while the core is locked.
pub(crate) struct Facts {
    decided: Decided,
}

impl Facts {
    pub(crate) fn of(router: &Router, request: Request<'_>) -> Self {
        let decision = router.decision();
        let (prompt, _) = router.expected(request);
        let chosen = decision.chosen();
        Self {
            decided: Decided {
                policy: decision.policy,
                arm: decision.arm,
                choice: choice(decision),
                stuck: decision.by == DecidedBy::Session,
                eviction_prevented: decision.eviction_prevented,
                fit_permille: decision.fit_permille,
                fate: decision.prefix_fate().map(PrefixFate::name),
                displaced: decision.displaced,
                out_of_turn: decision.out_of_turn,
                prompt,
                cached: chosen.map_or(Tokens::ZERO, |chosen| chosen.cached),
            },
        }
    }

    pub(crate) const fn outcome(&self) -> Decided {
        self.decided
    }
}
