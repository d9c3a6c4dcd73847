//! KV sharing metrics of a worker, under vLLM's names where it has them.
//!
//! Registered only where blocks are shared. Counted as it happens: nothing of it is on the engine's
//! thread.

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use overdraft_units::{Micros, Tokens};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use super::buckets::{FIRST_TOKEN, seconds};

type Reason = [(&'static str, &'static str); 1];

/// A fetch that brought something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchFacts {
    /// Blocks that came and are cached now.
    pub blocks: u64,
    /// Tokens in them.
    pub tokens: Tokens,
    /// Their bytes.
    pub bytes: u64,
    /// How long it took.
    pub took: Micros,
    /// How much longer computing them would have taken.
    pub saved: Micros,
}

/// The catalogue of a worker that shares its blocks.
#[derive(Clone, Debug)]
pub struct KvShareMetrics {
    queried: Counter,
    hits: Counter,
    fetched: Counter,
    computed: Counter,
    fetched_bytes: Counter,
    offered: Counter,
    offered_bytes: Counter,
    rejected: Family<Reason, Counter>,
    passed_over: Family<Reason, Counter>,
    duration: Histogram,
    saved: Counter<f64, AtomicU64>,
    pace: Gauge,
}

impl KvShareMetrics {
    /// Registers everything for the model of this name.
    pub(super) fn new(registry: &mut Registry, model: &str) -> Self {
        let metrics = Self {
            queried: Counter::default(),
            hits: Counter::default(),
            fetched: Counter::default(),
            computed: Counter::default(),
            fetched_bytes: Counter::default(),
            offered: Counter::default(),
            offered_bytes: Counter::default(),
            rejected: Family::default(),
            passed_over: Family::default(),
            duration: Histogram::new(FIRST_TOKEN),
            saved: Counter::default(),
            pace: Gauge::default(),
        };
        let labels = [
            (Cow::from("model_name"), Cow::from(model.to_owned())),
            (Cow::from("engine"), Cow::from("0")),
        ];
        let to = registry.sub_registry_with_labels(labels.into_iter());
        metrics.expose_fetches(to);
        metrics.expose_rest(to);
        metrics
    }

    fn expose_fetches(&self, to: &mut Registry) {
        let help = "External prefix cache queries, in terms of number of queried tokens";
        put(to, "vllm:external_prefix_cache_queries", help, &self.queried);
        let help = "External prefix cache hits, in terms of number of cached tokens";
        put(to, "vllm:external_prefix_cache_hits", help, &self.hits);
        let help = "Blocks of prompts that were fetched from other workers";
        put(to, "overdraft_kv_blocks_fetched", help, &self.fetched);
        let help = "Blocks of prompts that were neither cached nor fetched, and so computed";
        put(to, "overdraft_kv_blocks_computed", help, &self.computed);
        let help = "Bytes of fetched blocks";
        put(to, "overdraft_kv_fetched_bytes", help, &self.fetched_bytes);
        let help = "Blocks at which a fetch broke off, by reason; they were computed";
        put(to, "overdraft_kv_blocks_rejected", help, &self.rejected);
        let help = "Prompts whose missing blocks nobody was asked for, by reason";
        put(to, "overdraft_kv_fetches_passed_over", help, &self.passed_over);
    }

    fn expose_rest(&self, to: &mut Registry) {
        let help = "Time from the first question to the last block";
        put(to, "overdraft_kv_fetch_duration_seconds", help, &self.duration);
        let help = "Time that computing fetched blocks would have taken, less what fetching took";
        put(to, "overdraft_kv_fetch_saved_seconds", help, &self.saved);
        let help = "Tokens of prefixes that are fetched in a second, of the last fetch";
        put(to, "overdraft_kv_fetch_tokens_per_second", help, &self.pace);
        let help = "Blocks that were given to other workers";
        put(to, "overdraft_kv_blocks_offered", help, &self.offered);
        let help = "Bytes of blocks that were given to other workers";
        put(to, "overdraft_kv_offered_bytes", help, &self.offered_bytes);
    }

    /// A prompt lacks so many tokens of its prefix.
    pub fn missed(&self, tokens: Tokens) {
        self.queried.inc_by(u64::from(tokens.get()));
    }

    /// Nobody was asked.
    pub fn passed_over(&self, reason: &'static str) {
        self.passed_over.get_or_create(&[("reason", reason)]).inc();
    }

    /// Blocks came.
    pub fn fetched(&self, facts: &FetchFacts) {
        self.hits.inc_by(u64::from(facts.tokens.get()));
        self.fetched.inc_by(facts.blocks);
        self.fetched_bytes.inc_by(facts.bytes);
        self.duration.observe(seconds(facts.took));
        self.saved.inc_by(seconds(facts.saved));
        let pace = u64::from(facts.tokens.get()).saturating_mul(1_000_000);
        let pace = pace.checked_div(facts.took.get()).unwrap_or(0);
        self.pace.set(i64::try_from(pace).unwrap_or(i64::MAX));
    }

    /// A fetch broke off.
    pub fn rejected(&self, reason: &'static str) {
        self.rejected.get_or_create(&[("reason", reason)]).inc();
    }

    /// Blocks are left to be computed.
    pub fn computed(&self, blocks: u64) {
        self.computed.inc_by(blocks);
    }

    /// Blocks were given away.
    pub fn offered(&self, blocks: u64, bytes: u64) {
        self.offered.inc_by(blocks);
        self.offered_bytes.inc_by(bytes);
    }
}

fn put<M: Metric + Clone>(to: &mut Registry, name: &'static str, help: &'static str, metric: &M) {
    to.register(name, help, metric.clone());
}
