//! An attempt in flight on a worker, on the core's books until it ends.
//!
//! Invariant: an attempt that is dropped ends as abandoned, so no exit path leaves it on the books.

use std::sync::Arc;

use overdraft_core::fleet::{Ending, Failure, WorkerId};
use overdraft_core::route::{Outcome, Placed};
use overdraft_units::{Micros, Tokens};

use crate::fingerprint::Fingerprint;
use crate::relay::Used;
use crate::roster::Member;
use crate::shared::Shared;

/// An attempt in flight. Dropped without a word, it ends as abandoned.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    member: Arc<Member>,
    placed: Option<Placed>,
}

impl Lease {
    /// Of a request that was given a worker.
    pub(crate) const fn new(shared: Arc<Shared>, member: Arc<Member>, placed: Placed) -> Self {
        Self { shared, member, placed: Some(placed) }
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
        let router = self.shared.router();
        !placed.is_trial() && !router.fleet().worker(placed.worker()).breaker().is_closed()
    }

    /// The same with all that belongs to it.
    pub(crate) const fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Who has more of its prompt, where the worker can fetch it from there.
    pub(crate) fn source(&self) -> Option<WorkerId> {
        self.placed().source()
    }

    /// The request is on its way: the worker will hold its prompt.
    pub(crate) fn remember(&mut self, print: &Fingerprint) {
        let now = self.shared.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        self.shared.router().remember(placed, print.request().prompt, now);
    }

    /// The answer has begun.
    pub(crate) fn first_token(&mut self) {
        let now = self.shared.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        let waited = placed.age(now);
        let change = self.shared.router().first_token(placed, now);
        self.shared.lobby.ring(&self.shared);
        self.shared.routing.first_token(placed.policy, placed.arm, waited);
        self.shared.tell(change);
    }

    /// So many tokens of the answer have come so far.
    pub(crate) fn progress(&mut self, streamed: Tokens) {
        let now = self.shared.clock.now();
        let placed = self.placed.as_mut().expect("only `end` and `drop` take it");
        self.shared.router().progress(placed, streamed, now);
        self.shared.lobby.ring(&self.shared);
    }

    /// Reports how the attempt ended.
    pub(crate) fn end(mut self, ending: Ending, used: Option<Used>) {
        self.settle(ending, used);
    }

    /// The same for a worker that turned it away and perhaps asked to be left alone for so long.
    pub(crate) fn refused(mut self, failure: Failure, wait: Option<Micros>) {
        let (shared, worker) = (Arc::clone(&self.shared), self.worker());
        self.fail(failure);
        if let Some(wait) = wait {
            shared.router().asked_to_wait(worker, wait);
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
        if ending == Ending::Answered {
            let cached = used.and_then(|used| used.cached);
            self.shared.routing.answered(used.map(|used| used.prompt), cached);
        }
        let outcome = Outcome {
            ending,
            prompt: used.map(|used| used.prompt),
            cached: used.and_then(|used| used.cached),
            completion: used.map(|used| used.completion),
        };
        let now = self.shared.clock.now();
        let change = self.shared.router().end(placed, outcome, now);
        self.shared.lobby.ring(&self.shared);
        self.shared.tell(change);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.settle(Ending::Abandoned, None);
    }
}
