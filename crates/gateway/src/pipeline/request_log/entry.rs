//! Entry of the request log: one request, from its beginning to what is kept of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use overdraft_telemetry::{Delivery, EndCode};
use overdraft_units::{Instant, Micros, Tokens};

use super::{Live, lock};
use crate::dispatch::DecisionTrail;
use crate::pipeline::facts::RequestFacts;
use crate::settings::Pool;

/// A request under way, as the log has it. Dropping it takes it off the list of those under way.
#[derive(Debug)]
pub(crate) struct LogEntry {
    number: u64,
    request: Live,
    live: Arc<Mutex<BTreeMap<u64, Live>>>,
    /// The decisions about it.
    pub(crate) trail: DecisionTrail,
    /// Why it was refused for want of room or budget, and in which words.
    pub(crate) refusal: Option<(&'static str, Box<str>)>,
}

impl LogEntry {
    pub(super) fn new(number: u64, request: Live, live: Arc<Mutex<BTreeMap<u64, Live>>>) -> Self {
        Self { number, request, live, trail: DecisionTrail::default(), refusal: None }
    }
}

impl Drop for LogEntry {
    fn drop(&mut self) {
        let gone = lock(&self.live).remove(&self.number);
        drop(gone);
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Status sent; zero if none was.
    pub(crate) status: u16,
    pub(crate) end: EndCode,
    /// The pool whose worker answered, if one did.
    pub(crate) pool: Option<Pool>,
    /// From its head to the last byte.
    pub(crate) total: Micros,
}

/// What is kept of a request that has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logged {
    pub(crate) id: Arc<str>,
    pub(crate) route: &'static str,
    /// Seconds since 1970.
    pub(crate) ended_at: f64,
    pub(crate) begun: Instant,
    pub(crate) total: Micros,
    pub(crate) first_token: Option<Micros>,
    pub(crate) queued: Option<Micros>,
    pub(crate) status: u16,
    pub(crate) end: EndCode,
    pub(crate) is_streamed: bool,
    pub(crate) model: Option<Box<str>>,
    /// The name that the client gave it, where that is another.
    pub(crate) named: Option<Box<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) priority: Option<&'static str>,
    pub(crate) worker: Option<Box<str>>,
    pub(crate) prompt: Option<Tokens>,
    pub(crate) cached: Option<Tokens>,
    pub(crate) completion: Option<Tokens>,
    pub(crate) served_by: Option<&'static str>,
    pub(crate) cache: Option<&'static str>,
    /// How its stream went on at another worker, or why it did not.
    pub(crate) resumed_by: Option<&'static str>,
    /// The id of its trace, where it is recorded.
    pub(crate) trace: Option<Box<str>>,
    pub(crate) cost: Option<u64>,
    pub(crate) cost_alone: Option<u64>,
    pub(crate) refusal: Option<(&'static str, Box<str>)>,
    pub(crate) trail: DecisionTrail,
}

impl Logged {
    pub(super) fn new(mut entry: LogEntry, ended: &Ended, facts: &RequestFacts, at: f64) -> Self {
        Self {
            id: Arc::clone(&entry.request.id),
            route: entry.request.route,
            ended_at: at,
            begun: entry.request.begun,
            total: ended.total,
            first_token: facts.first_token,
            queued: facts.queued,
            status: ended.status,
            end: ended.end,
            is_streamed: facts.delivery == Delivery::Streamed,
            model: facts.model.as_deref().map(Into::into),
            named: facts.named.as_deref().map(Into::into),
            tenant: facts.tenant.clone(),
            priority: facts.priority,
            worker: facts.worker.as_deref().map(Into::into),
            prompt: facts.prompt,
            cached: facts.cached,
            completion: facts.completion,
            served_by: facts.served_by,
            cache: facts.cache,
            resumed_by: facts.resumed_by,
            trace: entry.request.facts.trace_id().map(Into::into),
            cost: facts.cost,
            cost_alone: facts.cost_alone,
            refusal: entry.refusal.take(),
            trail: std::mem::take(&mut entry.trail),
        }
    }
}
