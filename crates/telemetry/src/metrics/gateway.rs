//! Gateway metrics.
//!
//! Names begin with `overdraft_`, except for the one that the original write-up of this design gave
//! its own: `router_request_duration_seconds`. Models come from clients, hence a cap, which only those take room of that
//! a worker has answered for; paths, pools, workers and end codes are closed sets.

use std::sync::atomic::AtomicU64;

use overdraft_units::{Micros, Tokens};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::buckets::{FIRST_TOKEN, GATEWAY, seconds};
use super::exposition::Exposition;
use super::label_cap::LabelCap;
use super::registry::DescribedRegistry;
use super::series_cache::SeriesCache;
use crate::access::{EndCode, Ender};

/// Models that get a label value of their own.
const MODELS_MAX: usize = 64;

type One = [(&'static str, String); 1];
type Two = [(&'static str, String); 2];
type Three = [(&'static str, String); 3];

/// The pools there are.
const POOLS: [&str; 2] = ["target", "draft"];

/// What may go wrong with an attempt.
const UPSTREAM_ERRORS: [&str; 9] = [
    "unreachable",
    "no_connection",
    "local",
    "broken",
    "silent",
    "saturated",
    "misconfigured",
    "disputed",
    "faulty",
];

/// What may come of a second attempt, and why none may be sent.
const HEDGES: [&str; 6] = ["won", "lost", "failed", "budget", "shared", "no_room"];

/// How a request to the gateway ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestOutcome<'a> {
    /// The path, as a constant of the routing table.
    pub route: &'static str,
    /// The model asked for; empty if none.
    pub model: &'a str,
    /// What each pool that worked for it took; nothing for those that did not.
    pub pools: [Option<(&'static str, Micros)>; 2],
    /// Status sent.
    pub status: u16,
    /// Who ended it and when.
    pub end: EndCode,
    /// From head to last byte.
    pub total: Micros,
    /// From head to the first token, if there was one.
    pub first_token: Option<Micros>,
    /// Prompt tokens, if the worker said.
    pub prompt: Option<Tokens>,
    /// Completion tokens, if the worker said.
    pub completion: Option<Tokens>,
}

/// What every request counts, by what its labels are made of.
#[derive(Debug, Default)]
struct KnownSeries {
    requests: SeriesCache<(&'static str, u16), Counter>,
    ends: SeriesCache<EndCode, Counter>,
    duration: SeriesCache<&'static str, Histogram>,
    pool_duration: SeriesCache<&'static str, Histogram>,
    first_token: SeriesCache<String, Histogram>,
    tokens: SeriesCache<(&'static str, String), Counter>,
}

/// The gateway's catalogue.
#[derive(Debug)]
pub struct GatewayMetrics {
    registry: DescribedRegistry,
    models: LabelCap,
    known: KnownSeries,
    requests: Family<Two, Counter>,
    ends: Family<One, Counter>,
    duration: Family<One, Histogram>,
    pool_duration: Family<One, Histogram>,
    first_token: Family<One, Histogram>,
    inflight: Gauge,
    upstream_errors: Family<One, Counter>,
    retries: Counter,
    worker_inflight: Family<One, Gauge>,
    worker_up: Family<One, Gauge>,
    tokens: Family<Two, Counter>,
    resumes: Family<Three, Counter>,
    resumed_tokens: Family<One, Counter>,
    fallbacks: Family<One, Counter>,
    hedges: Family<One, Counter>,
}

impl Default for GatewayMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl GatewayMetrics {
    /// An empty catalogue.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: DescribedRegistry::default(),
            models: LabelCap::new(MODELS_MAX),
            known: KnownSeries::default(),
            requests: Family::default(),
            ends: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(GATEWAY)),
            pool_duration: Family::new_with_constructor(|| Histogram::new(GATEWAY)),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            inflight: Gauge::default(),
            upstream_errors: Family::default(),
            retries: Counter::default(),
            worker_inflight: Family::default(),
            worker_up: Family::default(),
            tokens: Family::default(),
            resumes: Family::default(),
            resumed_tokens: Family::default(),
            fallbacks: Family::default(),
            hedges: Family::default(),
        };
        metrics.register();
        metrics.create_closed_sets();
        let version = Family::<One, Gauge<f64, AtomicU64>>::default();
        version.get_or_create(&[("version", env!("CARGO_PKG_VERSION").to_owned())]).set(1.0);
        metrics.registry.register("overdraft_build_info", "What is running", version);
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "overdraft_requests",
            "Requests answered, by path and status",
            self.requests.clone(),
        );
        registry.register(
            "overdraft_request_ends",
            "Requests by who ended them and in which phase, as in the access line",
            self.ends.clone(),
        );
        registry.register(
            "overdraft_request_duration_seconds",
            "From a request's head to its answer's last byte",
            self.duration.clone(),
        );
        registry.register(
            "router_request_duration_seconds",
            "Time that a request took each pool that worked for it: all of it where one pool did, its own share where a draft was scored or continued",
            self.pool_duration.clone(),
        );
        registry.register(
            "overdraft_time_to_first_token_seconds",
            "From a request's head to its first token",
            self.first_token.clone(),
        );
        registry.register(
            "overdraft_inflight_requests",
            "Requests being answered",
            self.inflight.clone(),
        );
        registry.register(
            "overdraft_upstream_errors",
            "Attempts that a worker failed, by what went wrong",
            self.upstream_errors.clone(),
        );
        registry.register(
            "overdraft_retries",
            "Attempts beyond a request's first",
            self.retries.clone(),
        );
        registry.register(
            "overdraft_worker_inflight",
            "Requests that a worker is answering for this gateway",
            self.worker_inflight.clone(),
        );
        registry.register(
            "overdraft_worker_up",
            "Whether a worker is sent requests",
            self.worker_up.clone(),
        );
        registry.register(
            "overdraft_tokens",
            "Tokens by model and kind, as workers reported them, or as they were relayed where a stream ended before that",
            self.tokens.clone(),
        );
        self.register_resumes();
    }

    fn register_resumes(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "overdraft_resumes",
            "Streams that broke off or were handed over, by why, how they went on, and what came of it",
            self.resumes.clone(),
        );
        registry.register(
            "overdraft_resume_tokens",
            "Tokens that resuming had computed again, by the way; nobody is charged for them",
            self.resumed_tokens.clone(),
        );
        registry.register(
            "overdraft_fallbacks",
            "Requests that another model than theirs has answered, by that model",
            self.fallbacks.clone(),
        );
        registry.register(
            "overdraft_hedges",
            "Requests whose first token was late, by what came of a second attempt, or why none was sent",
            self.hedges.clone(),
        );
    }

    /// Series that are there before their first event: of one that begins with it, `increase` does
    /// not see that event, and a share of it is nothing instead of zero.
    fn create_closed_sets(&self) {
        for end in EndCode::all() {
            drop(self.ends.get_or_create(&[("end", end.to_string())]));
        }
        for kind in UPSTREAM_ERRORS {
            drop(self.upstream_errors.get_or_create(&[("kind", kind.to_owned())]));
        }
        for result in HEDGES {
            drop(self.hedges.get_or_create(&[("result", result.to_owned())]));
        }
        for pool in POOLS {
            drop(self.pool_duration.get_or_create(&[("pool", pool.to_owned())]));
        }
    }

    /// Requests that the deadline of a drain has ended.
    pub fn cut(&self) -> u64 {
        let ends = EndCode::all().filter(|end| end.ender == Ender::Drain);
        ends.map(|end| self.ends.get_or_create(&[("end", end.to_string())]).get()).sum()
    }

    /// The registry, for metrics that a feature adds to this catalogue.
    pub fn registry_mut(&mut self) -> &mut DescribedRegistry {
        &mut self.registry
    }

    /// A model that a worker has answered for, as labels have it.
    pub fn model_label<'a>(&self, model: &'a str) -> &'a str {
        self.models.admit(model)
    }

    /// The same of a model that may not exist: a name that a client made up takes no label from one that does.
    pub fn known_model_label<'a>(&self, model: &'a str) -> &'a str {
        self.models.known(model)
    }

    /// A request has come.
    pub fn request_begun(&self) {
        self.inflight.inc();
    }

    /// A request that had come has ended.
    pub fn request_ended(&self, outcome: &RequestOutcome<'_>) {
        self.inflight.dec();
        let RequestOutcome { route, status, end, pools, .. } = *outcome;
        let route_label = || ("route", route.to_owned());
        self.known.requests.with(
            |known| *known == (route, status),
            || {
                let labels = [route_label(), ("code", status.to_string())];
                ((route, status), self.requests.get_or_create_owned(&labels))
            },
            |requests| {
                requests.inc();
            },
        );
        self.known.ends.with(
            |known| *known == end,
            || (end, self.ends.get_or_create_owned(&[("end", end.to_string())])),
            |ends| {
                ends.inc();
            },
        );
        self.known.duration.with(
            |known| *known == route,
            || (route, self.duration.get_or_create_owned(&[route_label()])),
            |duration| duration.observe(seconds(outcome.total)),
        );
        for (pool, took) in pools.into_iter().flatten() {
            self.known.pool_duration.with(
                |known| *known == pool,
                || (pool, self.pool_duration.get_or_create_owned(&[("pool", pool.to_owned())])),
                |duration| duration.observe(seconds(took)),
            );
        }
        self.model_answered(outcome);
    }

    /// What is counted by model, where a worker has told any of it: names of models that nobody serves take no label.
    fn model_answered(&self, outcome: &RequestOutcome<'_>) {
        let is_told = outcome.first_token.is_some()
            || outcome.prompt.is_some()
            || outcome.completion.is_some();
        if outcome.model.is_empty() || !is_told {
            return;
        }
        let model = self.models.admit(outcome.model);
        let label = || ("model", model.to_owned());
        if let Some(waited) = outcome.first_token {
            self.known.first_token.with(
                |known| known == model,
                || (model.to_owned(), self.first_token.get_or_create_owned(&[label()])),
                |first_token| first_token.observe(seconds(waited)),
            );
        }
        for (kind, count) in [("prompt", outcome.prompt), ("completion", outcome.completion)] {
            let Some(count) = count else { continue };
            self.known.tokens.with(
                |(known_kind, known)| *known_kind == kind && known == model,
                || {
                    let labels = [label(), ("kind", kind.to_owned())];
                    ((kind, model.to_owned()), self.tokens.get_or_create_owned(&labels))
                },
                |tokens| {
                    tokens.inc_by(u64::from(count.get()));
                },
            );
        }
    }

    /// An attempt at a worker failed.
    pub fn upstream_failed(&self, kind: &'static str) {
        debug_assert!(UPSTREAM_ERRORS.contains(&kind), "`{kind}` is not in the closed set");
        self.upstream_errors.get_or_create(&[("kind", kind.to_owned())]).inc();
    }

    /// A request is tried again.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// A stream broke off for this `cause` and went on this `way`, or did not: `result` is `resumed` or why not.
    pub fn resumed(&self, cause: &'static str, way: &'static str, result: &'static str) {
        let label = |name, value: &'static str| (name, value.to_owned());
        let labels = [label("cause", cause), label("way", way), label("result", result)];
        self.resumes.get_or_create(&labels).inc();
    }

    /// So many tokens were computed again.
    pub fn computed_again(&self, way: &'static str, tokens: u32) {
        self.resumed_tokens.get_or_create(&[("way", way.to_owned())]).inc_by(u64::from(tokens));
    }

    /// A first token was late: `result` is `won`, `lost` or `failed`, or why no second attempt was sent.
    pub fn hedged(&self, result: &'static str) {
        debug_assert!(HEDGES.contains(&result), "`{result}` is not in the closed set");
        self.hedges.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// This model has answered for another.
    pub fn fell_back(&self, model: &str) {
        let model = self.models.admit(model).to_owned();
        self.fallbacks.get_or_create(&[("model", model)]).inc();
    }

    /// Drops what is known of workers; those that are still there are told of next.
    pub fn forget_workers(&self) {
        self.worker_inflight.clear();
        self.worker_up.clear();
    }

    /// A worker answers that many requests.
    pub fn worker_inflight(&self, worker: &str, requests: u32) {
        let labels = [("worker", worker.to_owned())];
        self.worker_inflight.get_or_create(&labels).set(i64::from(requests));
    }

    /// A worker is sent requests, or is not.
    pub fn worker_up(&self, worker: &str, up: bool) {
        self.worker_up.get_or_create(&[("worker", worker.to_owned())]).set(i64::from(up));
    }

    /// Everything, as a scraper reads it.
    pub fn encode(&self, exposition: Exposition) -> String {
        exposition.encode(self.registry.exposed())
    }

    /// Every metric, those without a series included: a reference, and no scrape.
    pub fn catalogue(&self, exposition: Exposition) -> String {
        exposition.catalogue(&self.registry)
    }
}
