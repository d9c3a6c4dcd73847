//! Request context: what belongs to one request from its head to its answer.
//!
//! It owns the guard that counts the request however it ends, and the explanation of its decision.
//! A streamed answer takes the guard along.

use std::sync::Arc;

use http::Response;
use http::request::Parts;
use overdraft_core::admit::Priority;
use overdraft_http::Exchange;
use overdraft_telemetry::Phase;
use overdraft_wire::Endpoint;
use tokio::sync::watch;

use super::deadline::Deadline;
use super::facts::{RequestFacts, SharedFacts};
use super::keys::Caller;
use super::relay::Continuation;
use super::request_guard::RequestGuard;
use super::{Pipeline, refusal};
use crate::dispatch::{Explanation, Member};

/// One request on its way.
#[derive(Debug)]
pub(crate) struct RequestContext<'a> {
    pub(crate) exchange: &'a Exchange,
    /// The head as the client sent it.
    pub(crate) head: &'a Parts,
    pub(crate) endpoint: Endpoint,
    /// Why it goes where it goes, where the client wants to know.
    pub(crate) explanation: Explanation,
    /// Who asks, once that is known.
    pub(crate) caller: Option<Caller>,
    /// With which priority, once that is known.
    pub(crate) priority: Option<Priority>,
    /// What becomes known of it.
    pub(crate) facts: SharedFacts,
    /// When its answer must have ended, where the client or its key says so.
    pub(crate) deadline: Option<Deadline>,
    /// How its stream goes on should it break off, where it may.
    pub(crate) continuation: Option<Box<dyn Continuation>>,
    guard: Option<RequestGuard>,
    /// Whether it is held until a worker is up, where somebody waits to hear that.
    held: Option<watch::Sender<bool>>,
    /// The worker that was asked last.
    served_by: Option<Arc<Member>>,
}

impl<'a> RequestContext<'a> {
    /// A request that nothing counts: a question of the gateway's own.
    pub(crate) fn new(exchange: &'a Exchange, head: &'a Parts, endpoint: Endpoint) -> Self {
        let explanation = Explanation::default();
        let (caller, priority, continuation) = (None, None, None);
        let (deadline, guard, held, served_by) = (None, None, None, None);
        let facts = SharedFacts::default();
        Self {
            exchange,
            head,
            endpoint,
            explanation,
            caller,
            priority,
            facts,
            deadline,
            continuation,
            guard,
            held,
            served_by,
        }
    }

    /// The same, counted by `guard`: its access record is written from the facts, and the log of
    /// requests keeps it, where there is one.
    #[must_use]
    pub(crate) fn guarded_by(mut self, mut guard: RequestGuard) -> Self {
        guard.trace(self.exchange.id.as_str(), &self.head.headers);
        self.facts = guard.facts().clone();
        self.exchange.access.written_from(guard.record_source());
        if guard.log(self.exchange.id.as_str()) {
            self.explanation.keep();
        }
        self.guard = Some(guard);
        self
    }

    /// The same where `held` is told whether its stream is held until a worker is up.
    #[must_use]
    pub(crate) fn told(mut self, held: watch::Sender<bool>) -> Self {
        self.held = Some(held);
        self
    }

    /// It is held until a worker is up, or is so no more.
    pub(crate) fn holds(&self, is_held: bool) {
        if let Some(held) = &self.held {
            held.send_replace(is_held);
        }
    }

    /// The same where what becomes known of it is noted in `facts`.
    #[must_use]
    pub(crate) fn noted_in(mut self, facts: SharedFacts) -> Self {
        self.facts = facts;
        self
    }

    /// Who is told whether it is held, for whoever asks in its place.
    pub(crate) fn hears(&self) -> Option<watch::Sender<bool>> {
        self.held.clone()
    }

    /// What counts it, unless an answer has taken that along.
    pub(crate) const fn guard(&mut self) -> Option<&mut RequestGuard> {
        self.guard.as_mut()
    }

    /// Gives the guard to an answer that goes on.
    pub(crate) fn take_guard(&mut self) -> Option<RequestGuard> {
        let mut guard = self.guard.take()?;
        guard.decided(self.explanation.take_trail());
        Some(guard)
    }

    /// The worker that was asked last, if any was.
    pub(crate) const fn served_by(&self) -> Option<&Arc<Member>> {
        self.served_by.as_ref()
    }

    /// This worker is asked now.
    pub(crate) fn asks(&mut self, member: &Arc<Member>) {
        if let Some(guard) = &mut self.guard {
            guard.by(member.settings.pool);
        }
        self.note(|record| {
            record.worker = Some(member.upstream.name().to_owned());
            record.end.phase = Phase::FirstToken;
        });
        self.served_by = Some(Arc::clone(member));
    }

    /// Notes what was learnt of it.
    pub(crate) fn note(&self, note: impl FnOnce(&mut RequestFacts)) {
        self.facts.note(note);
    }

    /// Tells in the answer's head what the client may know of its own request.
    pub(crate) fn sign<B>(&self, pipeline: &Pipeline, response: &mut Response<B>) {
        if let Some(priority) = self.priority {
            refusal::tell_priority(response.headers_mut(), priority);
        }
        if let Some((key, budget)) = self.caller.as_ref().and_then(Caller::budget) {
            let now = pipeline.dispatcher.clock.now();
            let standing = pipeline.budgets.standing(key, budget, now);
            refusal::tell_standing(response.headers_mut(), standing);
            // A dialect may tell it in its own words.
            response.extensions_mut().insert(standing);
        }
    }
}
