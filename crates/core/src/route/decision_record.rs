//! Decision record: the candidates of the last decision that are worth keeping with its request.
//!
//! A full explanation lists every worker and is made for one request at a time. A record is taken of
//! every request, so it keeps the chosen worker and the few that lost by least. Where the fast path
//! decided, the losers are known by their scores alone; the rest is read from the ledger.

use alloc::vec::Vec;

use overdraft_units::Tokens;

use super::candidate::{Candidate, Cost, Decision, Reason};
use super::decision_scene::Prefix;
use super::router::{Request, Router};
use super::routing_request::Asked;
use crate::fleet::WorkerId;

/// Candidates that a record keeps at most.
pub const RECORDED_MAX: usize = 6;

/// One candidate of a record.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Who.
    pub worker: WorkerId,
    /// What became of it.
    pub reason: Reason,
    /// The policy's verdict; `None` where the policy was not asked, or the wait alone was longer than all that another
    /// cost.
    pub score: Option<u64>,
    /// Prompt tokens it should hold already.
    pub cached: Tokens,
    /// Prompt tokens that stand before this request's, as far as they are ours; of those that lost on
    /// the fast path, all that are booked, computed by now or not.
    pub queued: u64,
    /// Requests on it, ours and others'.
    pub requests: u32,
    /// Tokens free in its cache; `None` while its capacity is unknown.
    pub free: Option<u64>,
    /// The parts of its cost, where the policy `cost` listed them.
    pub cost: Option<Cost>,
}

impl Recorded {
    fn of(decision: &Decision, one: &Candidate) -> Self {
        Self {
            worker: one.worker,
            reason: one.reason,
            score: decision.score(one),
            cached: one.cached,
            queued: one.queued,
            requests: one.requests,
            free: one.free,
            cost: (0 < one.cost.total()).then_some(one.cost),
        }
    }
}

impl Router {
    /// The candidates of the last decision, which was about `request`: the chosen one first, then
    /// those that lost by least. Returns how many were left out.
    pub fn record(&self, request: Request<'_>, into: &mut Vec<Recorded>) -> usize {
        let decision = self.decision();
        into.clear();
        let serving = self.fleet.serving(request.model).unwrap_or_default();
        if decision.candidates.len() < serving.len() && decision.scores.len() == serving.len() {
            self.record_scores(request, serving, into);
            return serving.len().saturating_sub(into.len());
        }
        let lower_is_better = decision.policy.lower_is_better();
        let rank = |one: &Candidate| {
            let score = if lower_is_better { one.score } else { !one.score };
            let class = match one.reason {
                Reason::Chosen => Class::Chosen,
                Reason::Outscored => Class::Outscored,
                _ => Class::Out,
            };
            Rank { class, score }
        };
        let mut best = Best::default();
        for (index, one) in decision.candidates.iter().enumerate() {
            best.note(rank(one), index);
        }
        into.extend(
            best.indices().map(|index| Recorded::of(decision, &decision.candidates[index])),
        );
        decision.candidates.len().saturating_sub(into.len())
    }

    /// The same where the fast path listed the chosen one only.
    fn record_scores(&self, request: Request<'_>, serving: &[WorkerId], into: &mut Vec<Recorded>) {
        let decision = self.decision();
        let chosen = decision.chosen();
        into.extend(chosen.map(|chosen| Recorded::of(decision, chosen)));
        let Asked { ask, chain, chunk } = self.ask(request);
        let prefix = Prefix { matches: self.matches(), index: &self.prefixes, chain, chunk };
        let mut best = Best::default();
        for (index, (id, score)) in serving.iter().zip(&decision.scores).enumerate() {
            if chosen.is_none_or(|chosen| chosen.worker != *id) {
                best.note(Rank { class: Class::Outscored, score: *score }, index);
            }
        }
        let room = RECORDED_MAX.saturating_sub(into.len());
        into.extend(best.indices().take(room).map(|index| {
            let (worker, score) = (serving[index], decision.scores[index]);
            let glance = self.fleet.glance(worker);
            Recorded {
                worker,
                reason: Reason::Outscored,
                score: (score != u64::MAX).then_some(score),
                cached: prefix.cached(worker, ask.prompt),
                queued: glance.prefill_tokens(),
                requests: glance.requests,
                free: glance.kv_free(),
                cost: None,
            }
        }));
    }
}

/// How far a candidate came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Chosen,
    Outscored,
    /// It was not in the running.
    #[default]
    Out,
}

/// The order of candidates: how far each came, then its score where less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    class: Class,
    score: u64,
}

/// The least ranks seen so far with their indices, in order.
#[derive(Debug, Default)]
struct Best {
    ranked: [(Rank, usize); RECORDED_MAX],
    count: usize,
}

impl Best {
    fn note(&mut self, rank: Rank, index: usize) {
        if self.count == RECORDED_MAX && self.ranked[self.count - 1].0 <= rank {
            return;
        }
        let mut at = self.count.min(RECORDED_MAX - 1);
        while 0 < at && rank < self.ranked[at - 1].0 {
            self.ranked[at] = self.ranked[at - 1];
            at -= 1;
        }
        self.ranked[at] = (rank, index);
        self.count = (self.count + 1).min(RECORDED_MAX);
    }

    fn indices(&self) -> impl Iterator<Item = usize> + '_ {
        self.ranked[..self.count].iter().map(|(_, index)| *index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(score: u64) -> Rank {
        Rank { class: Class::Outscored, score }
    }

    #[test]
    fn the_least_ranks_are_kept_in_order() {
        let mut best = Best::default();
        for (index, score) in [9, 3, 7, 1, 8, 2, 6, 4].into_iter().enumerate() {
            best.note(lost(score), index);
        }
        best.note(Rank { class: Class::Chosen, score: 99 }, 8);
        assert_eq!(best.indices().collect::<Vec<_>>(), [8, 3, 5, 1, 7, 6]);
    }

    #[test]
    fn fewer_than_fit_are_all_kept() {
        let mut best = Best::default();
        best.note(lost(5), 0);
        best.note(lost(5), 1);
        assert_eq!(best.indices().collect::<Vec<_>>(), [0, 1], "equal ranks keep their order");
    }
}
