//! Lease: an attempt in flight at a worker, on the core's ledger until it ends.
//!
//! Invariant: an attempt that is dropped ends as abandoned, so no exit path leaves it on the
//! ledger.

use std::sync::Arc;

use overdraft_core::deadline::{DeadlineSettings, Limit, Limits, Prediction, stall};
use overdraft_core::fleet::{Ending, Failure, WorkerId};
use overdraft_core::hedge::Watch;
use overdraft_core::route::{Outcome, Placed, Prompt};
use overdraft_units::{Micros, Tokens};

use super::dispatcher::Dispatcher;
use super::members::Member;
use crate::trace::{AttemptTrace, SpanTokens};

/// The tokens an answer used, as its worker counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) prompt: Tokens,
    /// Those that the worker had in its cache, if it says.
    pub(crate) cached: Option<Tokens>,
    pub(crate) completion: Tokens,
}

impl From<Used> for SpanTokens {
    fn from(Used { prompt, cached, completion }: Used) -> Self {
        Self { prompt, cached, completion }
    }
}

/// An attempt in flight. Dropped without a word, it ends as abandoned.
#[derive(Debug)]
pub(crate) struct Lease {
    dispatcher: Arc<Dispatcher>,
    member: Arc<Member>,
    placed: Option<Placed>,
    trace: AttemptTrace,
}

impl Lease {
    /// Of a request that was given a worker.
    pub(crate) const fn new(
        dispatcher: Arc<Dispatcher>,
        member: Arc<Member>,
        placed: Placed,
    ) -> Self {
        Self { dispatcher, member, placed: Some(placed), trace: AttemptTrace::Off }
    }

    fn placed(&self) -> &Placed {
        self.placed.as_ref().expect("only `end` and `drop` take it")
    }

    /// Where the attempt runs.
    pub(crate) fn worker(&self) -> WorkerId {
        self.placed().worker()
    }

    /// Whether it was given a worker that is out for failing its requests, and not as the trial of it.
    pub(crate) fn is_out(&self) -> bool {
        let placed = self.placed();
        let router = self.dispatcher.router();
        !placed.is_trial() && !router.fleet().worker(placed.worker()).breaker().is_closed()
    }

    /// The same with all that belongs to it.
    pub(crate) const fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// How its first token is awaited, where lateness is watched.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.placed().watch()
    }

    /// What it was expected to take when it was placed.
    pub(crate) fn prediction(&self) -> &Prediction {
        self.placed().prediction()
    }

    /// How long it may take.
    pub(crate) fn limits(&self, settings: DeadlineSettings) -> Limits {
        Limits::of(settings, self.prediction())
    }

    /// For how long its worker may say nothing now: one whose engine stands still gets no more than the least.
    pub(crate) fn stall_limit(&self, settings: DeadlineSettings) -> Limit {
        if self.member.is_still() {
            return stall(settings, Micros::ZERO);
        }
        let now = self.dispatcher.clock.now();
        self.dispatcher.router().stall_limit(self.worker(), settings, now)
    }

    /// Its attempt is traced so from now on.
    pub(crate) fn traced(&mut self, trace: AttemptTrace) {
        self.trace = trace;
    }

    /// How its attempt is traced.
    pub(crate) const fn trace(&self) -> &AttemptTrace {
        &self.trace
    }

    /// Who has more of its prompt, where the worker can fetch it from there.
    pub(crate) fn source(&self) -> Option<WorkerId> {
        self.placed().source()
    }

    /// The request is on its way: the worker will hold its prompt.
    pub(crate) fn remember(&mut self, prompt: Prompt<'_>) {
        let now = self.dispatcher.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        self.dispatcher.router().remember(placed, prompt, now);
    }

    /// The answer has begun.
    pub(crate) fn first_token(&mut self) {
        let now = self.dispatcher.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        let waited = placed.age(now);
        let change = self.dispatcher.router().first_token(placed, now);
        self.dispatcher.call_waiting();
        self.dispatcher.metrics.routing.first_token(placed.policy, placed.arm, waited);
        self.dispatcher.report(change);
        self.trace.first_token();
    }

    /// So many tokens of the answer have come so far.
    pub(crate) fn progress(&mut self, streamed: Tokens) {
        let now = self.dispatcher.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        self.dispatcher.router().progress(placed, streamed, now);
        self.dispatcher.call_waiting();
    }

    /// Reports how the attempt ended.
    pub(crate) fn end(mut self, ending: Ending, used: Option<Used>) {
        self.settle(ending, used);
    }

    /// The same for a worker that turned it away and perhaps asked to be left alone for so long.
    pub(crate) fn refused(mut self, failure: Failure, wait: Option<Micros>) {
        let (dispatcher, worker) = (Arc::clone(&self.dispatcher), self.worker());
        self.fail(failure);
        if let Some(wait) = wait {
            dispatcher.router().asked_to_wait(worker, wait);
        }
    }

    /// Reports that nothing came of it.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.settle(Ending::Failed(failure), None);
    }

    /// Reports that the worker will not have the request.
    pub(crate) fn decline(&mut self) {
        self.settle(Ending::Declined, None);
    }

    fn settle(&mut self, ending: Ending, used: Option<Used>) {
        let Some(placed) = self.placed.take() else { return };
        self.trace.ended(ending, used.map(SpanTokens::from));
        let cached = used.and_then(|used| used.cached);
        let metrics = &self.dispatcher.metrics.routing;
        if ending == Ending::Answered {
            metrics.answered(used.map(|used| used.prompt), cached);
        }
        let outcome = Outcome {
            ending,
            prompt: used.map(|used| used.prompt),
            cached,
            completion: used.map(|used| used.completion),
        };
        let now = self.dispatcher.clock.now();
        let mut router = self.dispatcher.router();
        // Of several answers it is not said which found how much. A worker leaves under the same lock, and its series
        // go then: an answer of it that ends later brings none back.
        let is_compared = ending == Ending::Answered
            && placed.demand().prospect.answers <= 1
            && router.fleet().is_member(placed.worker());
        if let Some(cached) = cached.filter(|_| is_compared) {
            metrics.compared(self.member.upstream.name(), placed.demand().cached, cached);
        }
        let change = router.end(placed, outcome, now);
        drop(router);
        self.dispatcher.call_waiting();
        self.dispatcher.report(change);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.settle(Ending::Abandoned, None);
    }
}
