//! Routing metrics: decisions, prefix hits, workers as the router sees them.
//!
//! Two names are the write-up's own: `router_fit_score` and `router_evictions_prevented`, which is also
//! told with the `_total` that a counter has by today's rules.
//! Labels are closed sets and the workers of the fleet, whose gauges are rebuilt for each reading,
//! so that a worker that left leaves no series behind.

use std::sync::atomic::AtomicU64;

use overdraft_core::prefix::Skipped;
use overdraft_core::route::{Arm, Policy};
use overdraft_units::{Micros, Tokens};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::buckets::{FIRST_TOKEN, seconds};
use super::registry::DescribedRegistry;
use super::series_cache::SeriesCache;
use super::single::AsNamed;

type One = [(&'static str, String); 1];
type Two = [(&'static str, String); 2];
type Words<const N: usize> = [(&'static str, &'static str); N];
type Float = Gauge<f64, AtomicU64>;

/// Upper bounds of scores, which lie between zero and one.
const SCORES: [f64; 10] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Kinds of cached tokens that are compared.
const PREDICTED: &str = "predicted";
const ACTUAL: &str = "actual";

/// A decision, as far as it is counted.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is counted for itself")]
pub struct Decided {
    /// Who decided.
    pub policy: Policy,
    /// On which side of a comparison.
    pub arm: Arm,
    /// What was decided, as a word of a closed set.
    pub choice: &'static str,
    /// Whether the session decided and not the policy.
    pub stuck: bool,
    /// Whether another choice would have evicted.
    pub eviction_prevented: bool,
    /// How well the request fits where it goes, in thousandths.
    pub fit_permille: Option<u16>,
    /// Tokens of the prompt, as estimated.
    pub prompt: Tokens,
    /// Those expected to be cached where it goes.
    pub cached: Tokens,
    /// What became of the prompt's prefix, where it was sent.
    pub fate: Option<&'static str>,
    /// Tokens of prefixes that it pushes out of its worker's cache.
    pub displaced: u64,
    /// Whether it has waited and started before another one's turn.
    pub out_of_turn: bool,
}

/// One worker as the router sees it.
#[derive(Clone, Debug)]
pub struct WorkerGauges {
    /// Its name.
    pub worker: String,
    /// Requests in flight on it, ours.
    pub requests: u32,
    /// Requests in flight on it, others'.
    pub requests_foreign: u32,
    /// Tokens of ours in flight on it.
    pub tokens: u64,
    /// Prompt tokens of ours that it has yet to compute.
    pub queued_tokens: u64,
    /// Tokens of its cache in use, as believed.
    pub kv_used: Option<u64>,
    /// Tokens its cache has room for.
    pub kv_capacity: Option<Tokens>,
    /// Age of its word on its load.
    pub staleness: Option<Micros>,
    /// Tokens a second that it prefills, as measured.
    pub prefill_rate: Option<u64>,
    /// What is believed of its cache rests on this.
    pub knowledge: &'static str,
}

/// The index of prefixes, and the cache of tokenised pieces.
#[derive(Clone, Copy, Debug)]
pub struct PrefixGauges {
    /// Bytes of memory the index takes.
    pub bytes: u64,
    /// Distinct chunks it knows.
    pub keys: u64,
    /// Bytes of text and tokens that are remembered.
    pub piece_bytes: u64,
    /// Pieces of prompts that were found there, and that had to be tokenised.
    pub pieces: [u64; 2],
    /// Prompts that were to be tokenised by workers: remembered, made, not had.
    pub remote_prompts: [u64; 3],
}

/// The catalogue of routing.
#[derive(Debug)]
pub struct RoutingMetrics {
    decisions: Family<Words<3>, Counter>,
    stuck: Counter,
    fit_score: Histogram,
    evictions_prevented: Counter,
    dispatches: Family<Words<1>, Counter>,
    waits: Family<Words<1>, Counter>,
    out_of_turn: Counter,
    displaced: Counter,
    first_token: Family<Words<2>, Histogram>,
    prefix_tokens: Family<Words<1>, Counter>,
    prefix_ratio: Float,
    cached_tokens: Family<Two, Counter>,
    scrapes: Family<Two, Counter>,
    reports: Family<Two, Counter>,
    skipped: Family<Two, Counter>,
    requests: Family<Two, Gauge>,
    tokens: Family<Two, Gauge>,
    staleness: Family<One, Float>,
    prefill_rate: Family<One, Gauge>,
    knowledge: Family<Two, Gauge>,
    index: Family<Words<1>, Gauge>,
    pieces: Family<Words<1>, Gauge>,
    remote_prompts: Family<Words<1>, Gauge>,
    /// What every request counts, by what its labels are made of.
    known_decisions: SeriesCache<(Policy, Arm, &'static str), Counter>,
    known_tokens: SeriesCache<&'static str, Counter>,
}

impl RoutingMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self {
            decisions: Family::default(),
            stuck: Counter::default(),
            fit_score: Histogram::new(SCORES),
            evictions_prevented: Counter::default(),
            dispatches: Family::default(),
            waits: Family::default(),
            out_of_turn: Counter::default(),
            displaced: Counter::default(),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            prefix_tokens: Family::default(),
            prefix_ratio: Float::default(),
            cached_tokens: Family::default(),
            scrapes: Family::default(),
            reports: Family::default(),
            skipped: Family::default(),
            requests: Family::default(),
            tokens: Family::default(),
            staleness: Family::default(),
            prefill_rate: Family::default(),
            knowledge: Family::default(),
            index: Family::default(),
            pieces: Family::default(),
            remote_prompts: Family::default(),
            known_decisions: SeriesCache::default(),
            known_tokens: SeriesCache::default(),
        };
        metrics.register_decisions(registry);
        metrics.register_prefixes(registry);
        metrics.register_workers(registry);
        metrics
    }

    fn register_decisions(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_routing_decisions",
            "Decisions by policy, side of a comparison, and what was decided",
            self.decisions.clone(),
        );
        registry.register(
            "overdraft_routing_sticky",
            "Decisions that the session took and not the policy",
            self.stuck.clone(),
        );
        registry.register(
            "router_fit_score",
            "How well requests fit where they go: free cache and free budget, weighted",
            self.fit_score.clone(),
        );
        registry.register(
            "router_evictions_prevented",
            "Requests that fit where they went and would have evicted elsewhere",
            AsNamed(self.evictions_prevented.clone()),
        );
        registry.register(
            "router_evictions_prevented_total",
            "The same under the name that a counter has",
            AsNamed(self.evictions_prevented.clone()),
        );
        registry.register(
            "overdraft_prefix_dispatches",
            "Requests sent, by what became of their prefix: warm, or computed anew and why",
            self.dispatches.clone(),
        );
        registry.register(
            "overdraft_queue_waits",
            "Requests that waited for a worker, by what for: their prefix there, or room",
            self.waits.clone(),
        );
        registry.register(
            "overdraft_queue_out_of_turn",
            "Requests that waited and started before another one's turn, because their prompt was in use at the worker",
            self.out_of_turn.clone(),
        );
        registry.register(
            "overdraft_prefix_displaced_tokens",
            "Tokens of prefixes that requests pushed out of caches, as expected when they were sent",
            self.displaced.clone(),
        );
        registry.register(
            "overdraft_routing_first_token_seconds",
            "From routing a request to its first token, by policy and side of a comparison",
            self.first_token.clone(),
        );
    }

    fn register_prefixes(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_prefix_tokens",
            "Prompt tokens: routed, expected to be cached, told by workers, told to be cached",
            self.prefix_tokens.clone(),
        );
        registry.register(
            "overdraft_prefix_hit_ratio",
            "Prompt tokens that workers found in their caches, of all that they told of",
            self.prefix_ratio.clone(),
        );
        registry.register(
            "overdraft_prefix_index",
            "The index of prefixes: bytes of memory, distinct keys, bytes of tokenised pieces",
            self.index.clone(),
        );
        registry.register(
            "overdraft_tokenizer_pieces",
            "Pieces of prompts since the start: found tokenised already, or tokenised",
            self.pieces.clone(),
        );
        registry.register(
            "overdraft_tokenizer_remote_prompts",
            "Prompts that workers were to tokenise, since the start: remembered, made, not had",
            self.remote_prompts.clone(),
        );
    }

    fn register_workers(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_scrapes",
            "Readings of a worker's metrics by what came of them",
            self.scrapes.clone(),
        );
        registry.register(
            "overdraft_kv_event_batches",
            "Reports of a worker's cache by what came of them",
            self.reports.clone(),
        );
        registry.register(
            "overdraft_kv_event_blocks_skipped",
            "Blocks that a worker reported as stored and that do not count as held, by why",
            self.skipped.clone(),
        );
        registry.register(
            "overdraft_worker_cached_tokens",
            "Prompt tokens found in a worker's cache, of answers that tell: as predicted, and as told",
            self.cached_tokens.clone(),
        );
        registry.register(
            "overdraft_worker_requests",
            "Requests on a worker: in flight through this gateway, and others'",
            self.requests.clone(),
        );
        registry.register(
            "overdraft_worker_tokens",
            "Tokens of a worker: in flight, queued for prefill, used and capacity of its cache",
            self.tokens.clone(),
        );
        registry.register(
            "overdraft_worker_staleness_seconds",
            "Age of a worker's last word on its load",
            self.staleness.clone(),
        );
        registry.register(
            "overdraft_worker_prefill_tokens_per_second",
            "How fast a worker computes prompts, as measured",
            self.prefill_rate.clone(),
        );
        registry.register(
            "overdraft_worker_prefix_knowledge",
            "What is believed of a worker's cache rests on: reports that answers confirm, reports, or estimates",
            self.knowledge.clone(),
        );
    }

    /// A decision was taken.
    pub fn decided(&self, decided: &Decided) {
        let Decided { policy, arm, choice, .. } = *decided;
        self.known_decisions.with(
            |known| *known == (policy, arm, choice),
            || {
                let labels = [("policy", policy.name()), ("arm", arm.name()), ("choice", choice)];
                ((policy, arm, choice), self.decisions.get_or_create_owned(&labels))
            },
            |decisions| {
                decisions.inc();
            },
        );
        if decided.stuck {
            self.stuck.inc();
        }
        if decided.eviction_prevented {
            self.evictions_prevented.inc();
        }
        if decided.out_of_turn {
            self.out_of_turn.inc();
        }
        if let Some(fate) = decided.fate {
            self.dispatches.get_or_create(&[("prefix", fate)]).inc();
            self.displaced.inc_by(decided.displaced);
        }
        let Some(fit) = decided.fit_permille else { return };
        self.fit_score.observe(f64::from(fit) / 1_000.0);
        self.count_tokens("routed", decided.prompt);
        self.count_tokens("expected", decided.cached);
    }

    /// A request waits for its prefix at a worker, or for room.
    pub fn waits(&self, awaits: &'static str) {
        self.waits.get_or_create(&[("for", awaits)]).inc();
    }

    /// A first token came.
    pub fn first_token(&self, policy: Policy, arm: Arm, waited: Micros) {
        let labels = [("policy", policy.name()), ("arm", arm.name())];
        self.first_token.get_or_create(&labels).observe(seconds(waited));
    }

    /// An answer told how long its prompt was, and how much of it was cached.
    pub fn answered(&self, prompt: Option<Tokens>, cached: Option<Tokens>) {
        let (Some(prompt), Some(cached)) = (prompt, cached) else { return };
        self.count_tokens("prompt", prompt);
        self.count_tokens("cached", cached);
    }

    /// An answer of a worker told how much of its prompt was cached, and so much was predicted.
    pub fn compared(&self, worker: &str, predicted: Tokens, actual: Tokens) {
        for (kind, tokens) in [(PREDICTED, predicted), (ACTUAL, actual)] {
            let labels = [("worker", worker.to_owned()), ("kind", kind.to_owned())];
            self.cached_tokens.get_or_create(&labels).inc_by(u64::from(tokens.get()));
        }
    }

    /// A worker's metrics were read, or were not: `result` is a word of a closed set.
    pub fn scraped(&self, worker: &str, result: &'static str) {
        let labels = [("worker", worker.to_owned()), ("result", result.to_owned())];
        self.scrapes.get_or_create(&labels).inc();
    }

    /// A worker reported on its cache: `result` is a word of a closed set.
    pub fn reported(&self, worker: &str, result: &'static str) {
        let labels = [("worker", worker.to_owned()), ("result", result.to_owned())];
        self.reports.get_or_create(&labels).inc();
    }

    /// Blocks that a worker reported as stored do not count as held.
    pub fn skipped(&self, worker: &str, skipped: Skipped) {
        for (reason, blocks) in skipped.by_reason().into_iter().filter(|(_, blocks)| 0 < *blocks) {
            let labels = [("worker", worker.to_owned()), ("reason", reason.to_owned())];
            self.skipped.get_or_create(&labels).inc_by(blocks);
        }
    }

    /// A worker left: the series that count what it said, with these results, go too.
    pub fn forget(&self, worker: &str, scrapes: &[&str], reports: &[&str]) {
        for kind in [PREDICTED, ACTUAL] {
            self.cached_tokens.remove(&[("worker", worker.to_owned()), ("kind", kind.to_owned())]);
        }
        for (reason, _) in Skipped::default().by_reason() {
            self.skipped.remove(&[("worker", worker.to_owned()), ("reason", reason.to_owned())]);
        }
        for (family, results) in [(&self.scrapes, scrapes), (&self.reports, reports)] {
            for result in results {
                family.remove(&[("worker", worker.to_owned()), ("result", (*result).to_owned())]);
            }
        }
    }

    /// Sets the gauges anew.
    pub fn set(&self, workers: &[WorkerGauges], index: PrefixGauges) {
        self.requests.clear();
        self.tokens.clear();
        self.staleness.clear();
        self.prefill_rate.clear();
        self.knowledge.clear();
        for worker in workers {
            self.set_worker(worker);
        }
        let bytes = i64::try_from(index.bytes).unwrap_or(i64::MAX);
        let keys = i64::try_from(index.keys).unwrap_or(i64::MAX);
        self.index.get_or_create(&[("what", "bytes")]).set(bytes);
        self.index.get_or_create(&[("what", "keys")]).set(keys);
        let piece_bytes = i64::try_from(index.piece_bytes).unwrap_or(i64::MAX);
        self.index.get_or_create(&[("what", "piece_bytes")]).set(piece_bytes);
        for (result, count) in ["hit", "miss"].into_iter().zip(index.pieces) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.pieces.get_or_create(&[("result", result)]).set(count);
        }
        for (result, count) in ["hit", "made", "failed"].into_iter().zip(index.remote_prompts) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.remote_prompts.get_or_create(&[("result", result)]).set(count);
        }
        let told = self.prefix_tokens.get_or_create(&[("kind", "prompt")]).get();
        let cached = self.prefix_tokens.get_or_create(&[("kind", "cached")]).get();
        self.prefix_ratio.set(share(cached, told));
    }

    fn set_worker(&self, gauges: &WorkerGauges) {
        let name = || ("worker", gauges.worker.clone());
        let labelled = |what: &'static str| [name(), ("kind", what.to_owned())];
        let requests = [("ours", gauges.requests), ("foreign", gauges.requests_foreign)];
        for (kind, count) in requests {
            self.requests.get_or_create(&labelled(kind)).set(i64::from(count));
        }
        let capacity = gauges.kv_capacity.map(|capacity| u64::from(capacity.get()));
        let tokens = [
            ("inflight", Some(gauges.tokens)),
            ("queued", Some(gauges.queued_tokens)),
            ("kv_used", gauges.kv_used),
            ("kv_capacity", capacity),
        ];
        for (kind, count) in tokens {
            if let Some(count) = count.and_then(|count| i64::try_from(count).ok()) {
                self.tokens.get_or_create(&labelled(kind)).set(count);
            }
        }
        if let Some(age) = gauges.staleness {
            self.staleness.get_or_create(&[name()]).set(seconds(age));
        }
        if let Some(rate) = gauges.prefill_rate.and_then(|rate| i64::try_from(rate).ok()) {
            self.prefill_rate.get_or_create(&[name()]).set(rate);
        }
        self.knowledge.get_or_create(&labelled(gauges.knowledge)).set(1);
    }

    fn count_tokens(&self, kind: &'static str, tokens: Tokens) {
        self.known_tokens.with(
            |known| *known == kind,
            || (kind, self.prefix_tokens.get_or_create_owned(&[("kind", kind)])),
            |counter| {
                counter.inc_by(u64::from(tokens.get()));
            },
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is read by people")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
