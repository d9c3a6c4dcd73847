//! Decision note: what is kept of a routing decision until the log of requests forgets its request.
//!
//! It is taken of every request while the core is locked, so it is small: the chosen worker and the few
//! that lost by least. `explain.rs` has the form that lists every worker and is made on demand.

use std::sync::Arc;

use overdraft_core::route::{
    ATTEMPTS_MAX, Awaits, Choice, Cost, DecidedBy, Policy, PrefixFate, Prompt, RECORDED_MAX,
    Recorded, Request, Router,
};
use overdraft_units::{Instant, Micros};

use super::explain;
use super::members::Members;

/// Decisions that are kept of one request at most: one for each attempt, and one for its wait.
const DECISIONS_MAX: usize = ATTEMPTS_MAX + 1;

/// One decision.
#[derive(Clone, Debug)]
pub(crate) struct DecisionNote {
    /// When it was made.
    pub(crate) at: Instant,
    pub(crate) choice: &'static str,
    pub(crate) policy: Policy,
    pub(crate) arm: &'static str,
    pub(crate) by: DecidedBy,
    pub(crate) prefix: Option<PrefixFate>,
    pub(crate) out_of_turn: bool,
    pub(crate) prompt_tokens: u32,
    /// Whether those were counted.
    pub(crate) is_counted: bool,
    pub(crate) completion_tokens: u32,
    pub(crate) saturation: Option<SaturationNote>,
    /// The chosen one first, then those that lost by least.
    pub(crate) candidates: Vec<CandidateNote>,
    pub(crate) left_out: usize,
    /// How the attempt failed, if it did.
    pub(crate) failed: Option<&'static str>,
}

/// What a request needs, and what there was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaturationNote {
    pub(crate) asked: u64,
    pub(crate) free: u64,
    pub(crate) awaits: Awaits,
    pub(crate) retry_after: Micros,
}

/// One candidate.
#[derive(Clone, Debug)]
pub(crate) struct CandidateNote {
    /// Its name.
    pub(crate) worker: Arc<str>,
    pub(crate) reason: &'static str,
    pub(crate) score: Option<u64>,
    pub(crate) cached: u32,
    pub(crate) queued: u64,
    pub(crate) requests: u32,
    pub(crate) free: Option<u64>,
    pub(crate) cost: Option<Cost>,
}

impl DecisionNote {
    /// Of the last decision of `router`, which was about `request`.
    pub(super) fn of(
        router: &Router,
        members: &Members,
        request: Request<'_>,
        at: Instant,
    ) -> Self {
        let decision = router.decision();
        let mut recorded: Vec<Recorded> = Vec::with_capacity(RECORDED_MAX);
        let left_out = router.record(request, &mut recorded);
        let (prompt, completion) = router.expected(request);
        let names = members.names(recorded.iter().map(|one| one.worker));
        let saturation = match decision.choice {
            Choice::Saturated { asked, free, awaits, retry_after, .. } => {
                Some(SaturationNote { asked, free, awaits, retry_after })
            }
            _ => None,
        };
        Self {
            at,
            choice: explain::choice(decision),
            policy: decision.policy,
            arm: decision.arm.name(),
            by: decision.by,
            prefix: decision.prefix_fate(),
            out_of_turn: decision.out_of_turn,
            prompt_tokens: prompt.get(),
            is_counted: matches!(request.prompt, Prompt::Counted { .. }),
            completion_tokens: completion.get(),
            saturation,
            candidates: names
                .into_iter()
                .zip(&recorded)
                .map(|(name, one)| CandidateNote::of(name, one))
                .collect(),
            left_out,
            failed: None,
        }
    }
}

impl CandidateNote {
    fn of(worker: Arc<str>, one: &Recorded) -> Self {
        Self {
            worker,
            reason: one.reason.name(),
            score: one.score,
            cached: one.cached.get(),
            queued: one.queued,
            requests: one.requests,
            free: one.free,
            cost: one.cost,
        }
    }
}

/// The decisions about one request, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecisionTrail(Vec<DecisionNote>);

impl DecisionTrail {
    /// Adds a decision. One that only repeats that the request waits replaces the one before.
    pub(super) fn add(&mut self, note: DecisionNote) {
        let is_full = DECISIONS_MAX <= self.0.len();
        match self.0.last_mut() {
            Some(last) if is_full || last.choice != "send" && last.choice == note.choice => {
                *last = note;
            }
            _ => self.0.push(note),
        }
    }

    /// The attempt that came of the last decision failed so.
    pub(crate) fn failed(&mut self, kind: &'static str) {
        if let Some(last) = self.0.last_mut() {
            last.failed = Some(kind);
        }
    }

    /// Decisions that sent the request to a worker.
    pub(crate) fn attempts(&self) -> u32 {
        let sent = self.0.iter().filter(|note| note.choice == "send").count();
        u32::try_from(sent).unwrap_or(u32::MAX)
    }

    pub(crate) fn notes(&self) -> &[DecisionNote] {
        &self.0
    }
}
