//! Request guard: what is counted of a request, however it ends.
//!
//! The guard lives as long as the request: in the handler until there is an answer, then in a
//! streamed answer. When it is dropped the request is over, and its facts go into the metrics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, StatusCode};
use overdraft_telemetry::metrics::RequestOutcome;
use overdraft_telemetry::{EndCode, Ender, Phase};
use overdraft_units::{Instant, Micros, Tokens};

use super::{Pipeline, Visit};
use crate::dispatch::DecisionTrail;
use crate::pipeline::canary::Side;
use crate::pipeline::facts::{RequestFacts, SharedFacts};
use crate::pipeline::keys::{Bill, Charge, NAMELESS};
use crate::pipeline::pricing::{PricedFacts, price};
use crate::pipeline::request_log::{Ended, Live, LogEntry, used};
use crate::pipeline::spans::{self, End};
use crate::settings::Pool;
use crate::trace::RequestTrace;

/// Both pools, in the order of their numbers.
const POOLS: [Pool; 2] = [Pool::Target, Pool::Draft];

/// Time that workers of each pool spend on one request, as it adds up.
#[derive(Clone, Debug, Default)]
pub(crate) struct PoolTimes(Arc<[AtomicU64; 2]>);

impl PoolTimes {
    /// So much more.
    pub(crate) fn add(&self, pool: Pool, took: Micros) {
        self.0[pool as usize].fetch_add(took.get(), Ordering::Relaxed);
    }

    /// In microseconds.
    fn of(&self, pool: Pool) -> u64 {
        self.0[pool as usize].load(Ordering::Relaxed)
    }
}

/// Books of a request that are kept apart from its guard. What they come to is noted in its facts.
pub(crate) trait Books: fmt::Debug + Send + Sync {
    /// Closes them, unless that has been done: the request is over.
    fn close(&self);
}

/// One request's entry in the metrics, in the making.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    pipeline: Arc<Pipeline>,
    facts: SharedFacts,
    route: &'static str,
    begun: Instant,
    pool: Option<Pool>,
    /// What each pool took where both may have worked for it.
    times: PoolTimes,
    /// The answer's status; none while there is no answer.
    status: Option<StatusCode>,
    /// Its place among the requests in flight, once it has one.
    visit: Option<Visit>,
    /// What its key was charged.
    charge: Option<Charge>,
    /// The side of a comparison that it is on, and whether a cascade keeps books of what it costs.
    side: Option<(Side, bool)>,
    /// Books of what it costs, where a cascade keeps them: a whole answer has ended before anybody reads it.
    books: Option<Box<dyn Books>>,
    /// Tokens of the answer that have been seen.
    streamed: u32,
    /// What the log of requests will have of it beside the access line, where there is a log.
    entry: Option<LogEntry>,
}

impl RequestGuard {
    pub(crate) fn new(pipeline: &Arc<Pipeline>, route: &'static str, begun: Instant) -> Self {
        pipeline.requests.request_begun();
        Self {
            pipeline: Arc::clone(pipeline),
            facts: SharedFacts::default(),
            route,
            begun,
            pool: None,
            times: PoolTimes::default(),
            status: None,
            visit: None,
            charge: None,
            side: None,
            books: None,
            streamed: 0,
            entry: None,
        }
    }

    /// Begins its trace, or goes on with its caller's; once.
    pub(crate) fn trace(&mut self, id: &str, head: &HeaderMap) {
        let is_traced = !matches!(self.facts.trace(), RequestTrace::Off);
        if let (Some(tracer), false) = (&self.pipeline.tracer, is_traced) {
            self.facts = SharedFacts::traced(tracer.begin(id, head));
        }
    }

    /// Lists it among those under way, to be kept in the log of requests; whether there is one.
    pub(crate) fn log(&mut self, id: &str) -> bool {
        let live =
            Live { id: id.into(), route: self.route, begun: self.begun, facts: self.facts.clone() };
        self.entry = self.pipeline.log.begin(live);
        let is_kept = self.entry.is_some();
        self.facts.note(|facts| facts.attempts = is_kept.then_some(0));
        is_kept
    }

    /// These decisions were made about it.
    pub(crate) fn decided(&mut self, trail: DecisionTrail) {
        if let Some(entry) = &mut self.entry {
            self.facts.note(|facts| facts.attempts = Some(trail.attempts()));
            entry.trail = trail;
        }
    }

    /// It was refused for want of room or budget.
    pub(crate) fn refused(&mut self, reason: &'static str, message: &str) {
        self.facts.note(|facts| facts.refused = Some(reason));
        if let Some(entry) = &mut self.entry {
            entry.refusal = Some((reason, message.into()));
        }
    }

    /// What its access record is written from.
    pub(crate) fn record_source(&self) -> PricedFacts {
        PricedFacts { facts: self.facts.clone(), pipeline: Arc::clone(&self.pipeline) }
    }

    /// What is known of it.
    pub(crate) const fn facts(&self) -> &SharedFacts {
        &self.facts
    }

    /// Takes a place among the requests in flight; false when there is none.
    pub(crate) fn enter(&mut self) -> bool {
        self.visit = self.pipeline.enter();
        self.visit.is_some()
    }

    /// Takes a place among the streams as well; false when there is none.
    pub(crate) fn stream(&mut self) -> bool {
        self.visit.as_mut().is_some_and(Visit::stream)
    }

    /// This was its key charged, to be settled when it is over.
    pub(crate) fn charge(&mut self, charge: Option<Charge>) {
        self.charge = charge;
    }

    /// It is on this side of a comparison; whether a cascade keeps books of what it costs.
    pub(crate) fn stands_on(&mut self, side: &Side, has_books: bool) {
        self.side = Some((side.clone(), has_books));
    }

    /// These books are closed before the request is counted.
    pub(crate) fn keeps(&mut self, books: impl Books + 'static) {
        self.books = Some(Box::new(books));
    }

    /// So many tokens of the answer have been relayed.
    pub(crate) const fn streamed(&mut self, tokens: u32) {
        self.streamed = tokens;
    }

    /// Workers of both pools may work for it, and these are their times.
    pub(crate) fn counts(&mut self, times: &PoolTimes) {
        self.times = times.clone();
    }

    /// What each pool took, of `total`: all of it where one pool did everything. Where one of them did something on
    /// the side, what is left is the answering one's.
    fn by_pool(&self, total: Micros) -> [Option<(&'static str, Micros)>; 2] {
        let aside = POOLS.map(|pool| self.times.of(pool)).into_iter().sum::<u64>();
        POOLS.map(|pool| {
            let took = match self.times.of(pool) {
                0 if self.pool == Some(pool) => total.get().saturating_sub(aside),
                0 => return None,
                took => took,
            };
            Some((pool.name(), Micros::new(took)))
        })
    }

    /// A worker of this pool has answered.
    pub(crate) const fn by(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    /// This is the answer's status.
    pub(crate) const fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// The model as metrics have it: a name that nobody has answered for may be made up.
    fn model_label<'m>(&self, model: &'m str) -> &'m str {
        let requests = &self.pipeline.requests;
        if self.status.is_some_and(|status| status.is_success()) {
            requests.model_label(model)
        } else {
            requests.known_model_label(model)
        }
    }

    /// How the request ended: as was noted, else as follows from how far it came.
    fn end(&self, noted: EndCode) -> EndCode {
        if noted.ender != Ender::Nobody || noted == EndCode::WHOLE {
            return noted;
        }
        match self.status {
            // A stream that has begun and was neither finished nor broken off by us.
            Some(_) if noted.phase == Phase::Data => {
                EndCode { ender: Ender::Client, phase: Phase::Data }
            }
            Some(status) => by_status(status),
            None => EndCode { ender: Ender::Client, phase: noted.phase },
        }
    }
}

/// As the access line has it for an answer that nobody cut short.
fn by_status(status: StatusCode) -> EndCode {
    match status.as_u16() {
        429 | 503 => EndCode { ender: Ender::Capacity, phase: Phase::Queue },
        400..=499 => EndCode { ender: Ender::Policy, phase: Phase::Request },
        500.. => EndCode { ender: Ender::Server, phase: Phase::FirstToken },
        _ => EndCode::WHOLE,
    }
}

impl RequestGuard {
    /// What the request has needed.
    fn bill(&self, facts: &RequestFacts) -> Bill {
        let tokens = |count: Option<Tokens>| count.map_or(0, |count| u64::from(count.get()));
        let served = self.pool.is_some() && self.status.is_none_or(|status| status.is_success());
        match (facts.prompt, facts.completion) {
            (None, None) if !served => Bill::Nothing,
            (None, _) if self.streamed > 0 => Bill::Streamed(self.streamed.into()),
            (None, None) => Bill::AsExpected,
            (prompt, completion) => {
                Bill::Counted(tokens(prompt).saturating_add(tokens(completion)))
            }
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let now = self.pipeline.dispatcher.clock.now();
        let total = now - self.begun;
        let (charge, entry) = (self.charge.take(), self.entry.take());
        if let Some(books) = self.books.take() {
            books.close();
        }
        let mut facts = self.facts.known();
        price(&mut facts, &self.pipeline.settings());
        if let Some(charge) = charge {
            charge.settle(self.bill(&facts), now);
        }
        let tenant = facts.tenant.as_deref().unwrap_or(NAMELESS);
        for (kind, count) in [("prompt", facts.prompt), ("completion", facts.completion)] {
            if let Some(count) = count {
                self.pipeline.admission.tenant_used(tenant, kind, count.get());
            }
        }
        let model = facts.model.as_deref().unwrap_or_default();
        if let Some(result) = facts.cache {
            self.pipeline.cache.ended(result, self.model_label(model), total);
        }
        let end = self.end(facts.end);
        if let Some((side, has_books)) = &self.side {
            let total = (end == EndCode::WHOLE).then_some(total);
            let settings = self.pipeline.settings();
            let settings = (!*has_books).then_some(&**settings);
            self.pipeline.canaries.ended(side, &facts, total, settings);
        }
        let status = self.status.map_or(0, |status| status.as_u16());
        if let Some(recording) = self.facts.trace().recording() {
            let (route, begun) = (self.route, self.begun);
            spans::finish(recording, &facts, &End { route, begun, total, status, code: end });
        }
        let ended = Ended { status, end, pool: self.pool, total };
        let used = used(&ended, &facts);
        if let Some((key, sum)) = used.as_ref().filter(|(_, sum)| 0 < sum.priced) {
            let model = self.pipeline.requests.model_label(&key.model);
            self.pipeline.cost.request(&key.tenant, model, key.by, [sum.cost, sum.cost_alone]);
        }
        if let Some(entry) = entry {
            self.pipeline.log.end(entry, &ended, &facts, used);
        }
        self.pipeline.requests.request_ended(&RequestOutcome {
            route: self.route,
            model,
            pools: self.by_pool(total),
            status,
            end,
            total,
            first_token: facts.first_token,
            prompt: facts.prompt,
            completion: facts.completion,
        });
    }
}
