//! Request context: what belongs to one request from its head to its answer.
//!
//! It owns the guard that counts the request however it ends, and the explanation of its decision.
//! A streamed answer takes the guard along.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use overdraft_core::admit::Priority;
use overdraft_http::Exchange;
use overdraft_telemetry::{AccessRecord, Phase};
use overdraft_wire::Endpoint;
use tokio::time::Instant;

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
    /// When the client wants its answer to have ended.
    pub(crate) deadline: Option<Instant>,
    /// How its stream goes on should it break off, where it may.
    pub(crate) continuation: Option<Box<dyn Continuation>>,
    guard: Option<RequestGuard>,
    /// The worker that was asked last.
    served_by: Option<Arc<Member>>,
}

impl<'a> RequestContext<'a> {
    /// A request that nothing counts: a question of the gateway's own.
    pub(crate) fn new(exchange: &'a Exchange, head: &'a Parts, endpoint: Endpoint) -> Self {
        let explanation = Explanation::default();
        let (caller, priority, continuation) = (None, None, None);
        let (deadline, guard, served_by) = (None, None, None);
        Self {
            exchange,
            head,
            endpoint,
            explanation,
            caller,
            priority,
            deadline,
            continuation,
            guard,
            served_by,
        }
    }

    /// The same, counted by `guard`.
    #[must_use]
    pub(crate) fn guarded_by(self, guard: RequestGuard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// What counts it, unless an answer has taken that along.
    pub(crate) const fn guard(&mut self) -> Option<&mut RequestGuard> {
        self.guard.as_mut()
    }

    /// Gives the guard to an answer that goes on.
    pub(crate) const fn take_guard(&mut self) -> Option<RequestGuard> {
        self.guard.take()
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

    /// Notes something in its access record.
    pub(crate) fn note(&self, note: impl FnOnce(&mut AccessRecord)) {
        self.exchange.access.note(note);
    }

    /// Tells in the answer's head what the client may know of its own request.
    pub(crate) fn sign(&self, pipeline: &Pipeline, head: &mut HeaderMap) {
        if let Some(priority) = self.priority {
            refusal::tell_priority(head, priority);
        }
        if let Some((key, budget)) = self.caller.as_ref().and_then(Caller::budget) {
            let now = pipeline.dispatcher.clock.now();
            refusal::tell_standing(head, pipeline.budgets.standing(key, budget, now));
        }
    }
}
