//! Dispatcher of requests: asks the core for a worker, and reports what came of it.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::Guard;
use bytes::Bytes;
use overdraft_core::admit::Ticket;
use overdraft_core::breaker::BreakerSettings;
use overdraft_core::deadline::Prediction;
use overdraft_core::fleet::{Cause, Change, Failure, RefusalKind, Turn, WorkerId};
use overdraft_core::hedge::{Denial, Watch};
use overdraft_core::route::{
    Attempted, Choice, Ejections, GiveUp, Placed, Request, RetrySettings, RouteSettings, Router,
    Strictness, Tried, Verdict, retry,
};
use overdraft_core::scale::Misses;
use overdraft_telemetry::Clock;
use overdraft_telemetry::metrics::{BreakerMetrics, RoutingMetrics};
use overdraft_units::Instant;

use super::decision_note::DecisionNote;
use super::explain::{self, Explanation, Facts};
use super::lease::Lease;
use super::members::{Member, Members};
use super::wait_queue::WaitQueue;
use crate::settings::{GatewaySettings, LiveSettings, Pool, Routes, drafts};
use crate::upstream::Upstream;

/// What the dispatcher counts.
#[derive(Debug)]
pub(crate) struct DispatcherMetrics {
    /// Decisions, and how well what they assumed of caches held.
    pub(crate) routing: RoutingMetrics,
    /// Circuit breakers, and the store that gateways share.
    pub(crate) breaker: BreakerMetrics,
}

/// Stands between the core and everything that happens.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) clock: Clock,
    settings: Arc<LiveSettings>,
    router: Mutex<Router>,
    pub(crate) members: Members,
    pub(crate) wait_queue: WaitQueue,
    /// Drafts that cascades would have asked.
    pub(super) misses: Mutex<Misses>,
    pub(crate) metrics: DispatcherMetrics,
    /// A number that no other gateway has, for draws.
    dice: u64,
}

/// The core's state, to be looked at and not changed; let go of it before the next await.
#[derive(Debug)]
pub(crate) struct View<'a>(MutexGuard<'a, Router>);

impl Deref for View<'_> {
    type Target = Router;

    fn deref(&self) -> &Router {
        &self.0
    }
}

/// A request for a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing<'a> {
    /// What the core knows of the request.
    pub(crate) request: Request<'a>,
    /// The attempts so far.
    pub(crate) tried: &'a Tried,
    /// Whether it is the first attempt.
    pub(crate) turn: Turn,
    /// Whether admission has a say.
    pub(crate) strictness: Strictness,
}

impl Dispatcher {
    /// A dispatcher of a fleet that has no workers yet.
    pub(crate) fn new(
        settings: Arc<LiveSettings>,
        clock: Clock,
        metrics: DispatcherMetrics,
    ) -> Self {
        let dice = RandomState::new().hash_one(0_u64);
        let router = Router::new(settings.settings().routing.prefix);
        let dispatcher = Self {
            clock,
            router: Mutex::new(router),
            members: Members::default(),
            wait_queue: WaitQueue::default(),
            misses: Mutex::default(),
            metrics,
            dice,
            settings,
        };
        let first = Arc::clone(&dispatcher.settings());
        dispatcher.adopt(&first);
        dispatcher
    }

    /// The settings now; for a moment's look.
    pub(crate) fn settings(&self) -> Guard<Arc<GatewaySettings>> {
        self.settings.settings()
    }

    /// How requests are routed now; for a moment's look.
    pub(crate) fn routes(&self) -> Guard<Arc<Routes>> {
        self.settings.routes()
    }

    /// Tells the core what is set.
    pub(crate) fn adopt(&self, settings: &GatewaySettings) {
        let mut router = self.router();
        router.set_breakers(BreakerSettings { dice: self.dice, ..settings.breaker });
        router.set_spare(drafts(&settings.cascades));
        router.set_queue(settings.admission.queue);
        router.set_hedging(settings.hedging);
    }

    /// Other settings are in force: whoever waits may have room by them.
    pub(crate) fn readmit(&self) {
        self.router().freed();
        self.call_waiting();
    }

    /// The core's state, to look at.
    pub(crate) fn view(&self) -> View<'_> {
        View(self.router())
    }

    /// The state of the core; let go of it before the next await.
    pub(super) fn router(&self) -> MutexGuard<'_, Router> {
        // A panic while it is held is a defect of the core, whose books may then be off by one
        // request; refusing all others would be worse.
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker at a place that the core gave out, as it is spoken to.
    pub(crate) fn upstream(&self, worker: WorkerId) -> Arc<Upstream> {
        self.members.upstream(worker)
    }

    /// The same with all that belongs to it.
    pub(crate) fn member(&self, worker: WorkerId) -> Arc<Member> {
        self.members.get(worker)
    }

    /// What a worker is for.
    pub(crate) fn pool(&self, worker: WorkerId) -> Pool {
        self.member(worker).settings.pool
    }

    /// Calls those whose turn it is, where anything is known better.
    pub(crate) fn call_waiting(&self) {
        self.wait_queue.ring(self);
    }

    /// Asks the core for a worker and books the attempt, in one step. The prompt is yet to be
    /// [remembered](Lease::remember).
    pub(crate) fn place(
        self: &Arc<Self>,
        placing: Placing<'_>,
        explanation: &mut Explanation,
    ) -> Result<Lease, Choice> {
        let Placing { request, tried, turn, strictness } = placing;
        let routes = self.routes();
        let unbounded;
        let mut settings = routes.route(request.model);
        if strictness == Strictness::Waived {
            unbounded = Strictness::Waived.over(settings);
            settings = &unbounded;
        }
        self.decide(placing, settings, explanation, |router, now| {
            router.place(request, settings, Attempted { tried, turn }, now)
        })
    }

    /// The same for the first attempt of a request that has waited and is called. If there is no room after
    /// all, it waits on.
    pub(crate) fn place_called(
        self: &Arc<Self>,
        request: Request<'_>,
        ticket: Ticket,
        explanation: &mut Explanation,
    ) -> Result<Lease, Choice> {
        let routes = self.routes();
        let settings = routes.route(request.model);
        let tried = Tried::default();
        let placing =
            Placing { request, tried: &tried, turn: Turn::First, strictness: Strictness::Judged };
        self.decide(placing, settings, explanation, |router, now| {
            router.place_called(ticket, request, settings, now)
        })
    }

    fn decide(
        self: &Arc<Self>,
        placing: Placing<'_>,
        settings: &RouteSettings,
        explanation: &mut Explanation,
        place: impl FnOnce(&mut Router, Instant) -> Result<Placed, Choice>,
    ) -> Result<Lease, Choice> {
        let Placing { request, tried, .. } = placing;
        let mut router = self.router();
        let now = self.clock.now();
        if explanation.is_wanted() {
            router.explain(request, settings, tried, now);
            let limits = explain::limits(&router, request, settings, now);
            let cascade = explanation.cascade();
            let words = explain::text(&router, &self.members, request, limits, cascade);
            explanation.tell(words);
        }
        let placed = place(&mut router, now);
        let waived = router.decision().ejections == Ejections::Waived;
        let facts = Facts::of(&router, request);
        if let Some(trail) = explanation.trail() {
            trail.add(DecisionNote::of(&router, &self.members, request, now));
        }
        drop(router);
        self.metrics.routing.decided(&facts.outcome());
        if waived {
            self.metrics.breaker.panicked();
        }
        let placed = placed?;
        if placed.is_trial() {
            self.metrics.breaker.tried();
        }
        let member = self.members.get(placed.worker());
        Ok(Lease::new(Arc::clone(self), member, placed))
    }

    /// Asks the core for another worker for a request whose first token is late, and books the attempt.
    pub(crate) fn hedge(
        self: &Arc<Self>,
        request: Request<'_>,
        watch: Watch,
        explanation: &mut Explanation,
    ) -> Result<Lease, Denial> {
        let routes = self.routes();
        let mut router = self.router();
        let now = self.clock.now();
        let placed = router.hedge(request, routes.route(request.model), watch, now)?;
        if let Some(trail) = explanation.trail() {
            trail.add(DecisionNote::of(&router, &self.members, request, now));
        }
        drop(router);
        let member = self.members.get(placed.worker());
        Ok(Lease::new(Arc::clone(self), member, placed))
    }

    /// What `request`, of which the last decision was, is expected to take at `worker`.
    pub(crate) fn predict(&self, request: Request<'_>, worker: WorkerId) -> Prediction {
        self.router().predict(request, worker, self.clock.now())
    }

    /// What the core would decide now, without booking anything: its choice, and in words why. Of a request to a draft
    /// the words name the cascade.
    pub(crate) fn explain(&self, request: Request<'_>, cascade: Option<&str>) -> (Choice, Bytes) {
        let routes = self.routes();
        let settings = routes.route(request.model);
        let mut router = self.router();
        let now = self.clock.now();
        router.explain(request, settings, &Tried::default(), now);
        let limits = explain::limits(&router, request, settings, now);
        let words = explain::text(&router, &self.members, request, limits, cascade);
        (router.decision().choice, words)
    }

    /// Asks the core whether a failed attempt at a request for `model` is made again.
    pub(crate) fn retry(&self, model: &str, tried: &Tried) -> Verdict {
        let now = self.clock.now();
        retry(self.router().fleet(), self.settings().retry, model, tried, now)
    }

    /// The same, where it is told first who failed and how.
    pub(crate) fn attempt_failed(
        &self,
        model: &str,
        tried: &mut Tried,
        worker: WorkerId,
        failure: Failure,
    ) -> Verdict {
        let now = self.clock.now();
        let settings = self.settings().retry;
        let mut router = self.router();
        tried.fail(worker, failure, router.fleet(), now);
        let verdict = retry(router.fleet(), settings, model, tried, now);
        if verdict == Verdict::GiveUp(GiveUp::Agreed) {
            router.agreed(tried);
        }
        verdict
    }

    /// The same for a stream that broke off: how often it may be resumed is for who does that to know.
    pub(crate) fn resume_failed(
        &self,
        model: &str,
        tried: &mut Tried,
        worker: WorkerId,
        failure: Failure,
    ) -> Verdict {
        let settings = RetrySettings { extra_attempts_max: u8::MAX, ..self.settings().retry };
        let now = self.clock.now();
        let router = self.router();
        tried.fail(worker, failure, router.fleet(), now);
        retry(router.fleet(), settings, model, tried, now)
    }

    /// A worker gave a result to what others said that there is not.
    pub(crate) fn refuted(&self, tried: &Tried) {
        if tried.disputing().next().is_some() {
            let change = self.router().refuted(tried, self.clock.now());
            self.report(change);
        }
    }

    /// A full worker is no news; one that somebody has to mend is.
    fn report_refusal(&self, worker: WorkerId, kind: RefusalKind) {
        let upstream = self.upstream(worker);
        let (worker, why) = (upstream.name(), kind.name());
        match kind {
            RefusalKind::Saturated => {
                tracing::debug!(worker, why, "worker is full; others are preferred for a while");
            }
            RefusalKind::Failing | RefusalKind::Misconfigured => {
                tracing::warn!(
                    worker,
                    why,
                    "worker refuses requests; others are preferred until a trial succeeds"
                );
            }
        }
    }

    /// Calls those whose turn it is by what changed, and tells of it.
    pub(super) fn changed(&self, change: Option<Change>) {
        if change.is_some() {
            self.call_waiting();
        }
        self.report(change);
    }

    /// Tells the log what changed, and counts it.
    pub(super) fn report(&self, change: Option<Change>) {
        let Some(change) = change else { return };
        match change {
            Change::CameUp(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker came up");
                self.member(worker).came_up();
            }
            Change::ModelsChanged(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker changed its models");
            }
            Change::WentDown(worker, cause) => {
                let upstream = self.upstream(worker);
                tracing::warn!(worker = upstream.name(), ?cause, "worker went down");
                if matches!(cause, Cause::Unready | Cause::Unreachable) {
                    self.member(worker).went_down(self.clock.now());
                }
                upstream.sweep();
            }
            Change::Opened(worker) => {
                let upstream = self.upstream(worker);
                let worker = upstream.name();
                tracing::warn!(worker, "circuit breaker opened: the worker fails its requests");
                self.metrics.breaker.turned("open");
                upstream.sweep();
            }
            Change::HalfOpened(worker) => {
                let upstream = self.upstream(worker);
                let worker = upstream.name();
                tracing::info!(
                    worker,
                    "circuit breaker half-open: the worker gets a trial request"
                );
                self.metrics.breaker.turned("half_open");
            }
            Change::Closed(worker) => {
                let upstream = self.upstream(worker);
                let worker = upstream.name();
                tracing::info!(worker, "circuit breaker closed: the worker gets requests again");
                self.metrics.breaker.turned("closed");
            }
            Change::Refuses(worker, kind) => self.report_refusal(worker, kind),
        }
    }
}
