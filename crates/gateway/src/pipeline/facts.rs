//! Request facts: what becomes known of a request on its way, for all who count it.
//!
//! Answer, guard, cache and cascade share them. The access record is written from them when the listener writes its
//! line, and nobody reads it before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_telemetry::{AccessRecord, Delivery, EndCode, Ender, PassedLimit};
use overdraft_units::{Micros, Tokens};

use crate::trace::RequestTrace;

/// The facts of one request, by their names in the access record.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFacts {
    /// The model asked for.
    pub(crate) model: Option<String>,
    /// The name that the client gave it, where that is another.
    pub(crate) named: Option<String>,
    pub(crate) delivery: Delivery,
    pub(crate) prompt: Option<Tokens>,
    pub(crate) completion: Option<Tokens>,
    /// Prompt tokens that the worker found in its cache.
    pub(crate) cached: Option<Tokens>,
    /// Tokens of prompt and completion of an answer from the response cache.
    pub(crate) reused: Option<(Tokens, Tokens)>,
    pub(crate) prompt_bytes: Option<u64>,
    /// Names of the prompt's beginnings.
    pub(crate) prefix: Option<String>,
    pub(crate) first_token: Option<Micros>,
    /// How long it waited for a worker.
    pub(crate) queued: Option<Micros>,
    pub(crate) worker: Option<String>,
    /// Attempts at workers, where the log of requests keeps the decisions.
    pub(crate) attempts: Option<u32>,
    /// Why it was refused for want of room or budget.
    pub(crate) refused: Option<&'static str>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) priority: Option<&'static str>,
    /// Whose answer it got, of a cascade.
    pub(crate) served_by: Option<&'static str>,
    /// The model that stood in for the one that was asked for, where one did.
    pub(crate) stand_in: Option<String>,
    /// How the target was asked for the last score.
    pub(crate) scored_by: Option<&'static str>,
    /// What it cost, and what the target alone would have, in millionths of a dollar.
    pub(crate) cost: Option<u64>,
    pub(crate) cost_alone: Option<u64>,
    /// What the response cache had to do with it.
    pub(crate) cache: Option<&'static str>,
    /// How often its stream went on at another worker.
    pub(crate) resumed: Option<u8>,
    /// The way it last went on, or why it did not.
    pub(crate) resumed_by: Option<&'static str>,
    /// What came of a second attempt that was sent for a late first token.
    pub(crate) hedged: Option<&'static str>,
    /// The limit of time that was passed last.
    pub(crate) limit: Option<PassedLimit>,
    /// How it ended, or how far it has come.
    pub(crate) end: EndCode,
}

/// How records call an answer of a model that stands in for the one that was asked for.
pub(crate) const FALLBACK: &str = "fallback";

/// Facts that several hold; copies are the same facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedFacts {
    facts: Arc<Mutex<RequestFacts>>,
    trace: RequestTrace,
}

impl SharedFacts {
    /// Facts of a request with this trace.
    pub(crate) fn traced(trace: RequestTrace) -> Self {
        Self { facts: Arc::default(), trace }
    }

    /// The request's trace.
    pub(crate) const fn trace(&self) -> &RequestTrace {
        &self.trace
    }

    /// The id of the request's trace, where it is recorded.
    pub(crate) fn trace_id(&self) -> Option<String> {
        self.trace.recording().map(|recording| recording.context.trace.to_hex())
    }

    /// Notes what was learnt.
    pub(crate) fn note(&self, note: impl FnOnce(&mut RequestFacts)) {
        note(&mut self.facts());
    }

    /// What is known by now.
    pub(crate) fn known(&self) -> RequestFacts {
        self.facts().clone()
    }

    fn facts(&self) -> MutexGuard<'_, RequestFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestFacts {
    /// Whether another model answered it than the one that was asked for.
    pub(crate) fn has_fallen_back(&self) -> bool {
        self.served_by == Some(FALLBACK)
    }

    /// The model whose prices hold: of the answer's tokens, whichever was asked for.
    pub(crate) fn priced_as(&self) -> Option<&str> {
        self.stand_in.as_deref().or(self.model.as_deref())
    }

    /// Writes them into the access record. The listener may know who ended the request.
    pub(crate) fn write(self, record: &mut AccessRecord, trace: &RequestTrace) {
        let RequestFacts {
            model,
            named,
            delivery,
            prompt,
            completion,
            cached,
            reused,
            prompt_bytes,
            prefix,
            first_token,
            queued,
            worker,
            attempts,
            refused,
            tenant,
            priority,
            served_by,
            stand_in,
            scored_by,
            cost,
            cost_alone,
            cache,
            resumed,
            resumed_by,
            hedged,
            limit,
            end,
        } = self;
        let ender = if end.ender == Ender::Nobody { record.end.ender } else { end.ender };
        (record.model, record.named, record.delivery) = (model, named, delivery);
        (record.prompt, record.completion, record.cached) = (prompt, completion, cached);
        (record.reused, record.prompt_bytes, record.prefix) = (reused, prompt_bytes, prefix);
        (record.first_token, record.queued, record.worker) = (first_token, queued, worker);
        (record.attempts, record.refused) = (attempts, refused);
        (record.tenant, record.priority) = (tenant, priority);
        (record.served_by, record.stand_in) = (served_by, stand_in);
        record.scored_by = scored_by;
        (record.cost, record.cost_alone, record.cache) = (cost, cost_alone, cache);
        (record.resumed, record.resumed_by, record.hedged) = (resumed, resumed_by, hedged);
        record.limit = limit;
        record.end = EndCode { ender, phase: end.phase };
        record.trace = trace.recording().map(|recording| recording.context.trace.to_hex());
    }
}
