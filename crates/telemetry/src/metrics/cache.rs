//! Response cache metrics.
//!
//! `llm_cache_hit_ratio` and `llm_request_duration_seconds{cache_hit,model}` bear the names and the
//! bucket edges that the original write-up gave them; its ratio was the last request's 0 or 1, this one
//! is of all requests of the last five minutes, those that bypass the cache included. It is absent where
//! there were none: a share of nothing is no share.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use overdraft_core::estimate::SlidingRatio;
use overdraft_units::{Instant, Micros};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::buckets::{CACHED, seconds};
use super::registry::DescribedRegistry;
use super::single::OptionalGauge;

type Word = [(&'static str, &'static str); 1];
type Words = [(&'static str, &'static str); 2];
type Two = [(&'static str, String); 2];
type Seconds = Counter<f64, AtomicU64>;

/// The cache as it is at a scrape.
#[derive(Clone, Debug, Default)]
pub struct CacheGauges {
    /// Bytes kept in memory.
    pub bytes: u64,
    /// Answers kept in memory.
    pub entries: u64,
    /// How often each fault of the store was met since it was opened.
    pub faults: Vec<(&'static str, u64)>,
    /// Entries of the store that were none, by why.
    pub unusable: Vec<(&'static str, u64)>,
}

/// What became of requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Answered by what was kept.
    pub hits: u64,
    /// Asked of a worker.
    pub misses: u64,
    /// Answered together with another.
    pub coalesced: u64,
    /// Not looked up.
    pub bypasses: u64,
    /// Would have been answered, had they not only been observed.
    pub would_hit: u64,
    /// Would not have been.
    pub would_miss: u64,
}

/// The catalogue of the response cache.
#[derive(Debug)]
pub struct CacheMetrics {
    ratio: OptionalGauge,
    recent: Mutex<SlidingRatio>,
    duration: Family<Two, Histogram>,
    requests: Family<Word, Counter>,
    bypasses: Family<Word, Counter>,
    lookups: Family<Words, Counter>,
    unkept: Family<Word, Counter>,
    evictions: Family<Word, Counter>,
    puts: Family<Word, Counter>,
    bytes: Gauge,
    entries: Gauge,
    seconds_saved: Seconds,
    tokens_saved: Counter,
    faults: Family<Word, Counter>,
    unusable: Family<Word, Counter>,
}

impl CacheMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self {
            ratio: OptionalGauge::default(),
            recent: Mutex::new(SlidingRatio::new()),
            duration: Family::new_with_constructor(|| Histogram::new(CACHED)),
            requests: Family::default(),
            bypasses: Family::default(),
            lookups: Family::default(),
            unkept: Family::default(),
            evictions: Family::default(),
            puts: Family::default(),
            bytes: Gauge::default(),
            entries: Gauge::default(),
            seconds_saved: Seconds::default(),
            tokens_saved: Counter::default(),
            faults: Family::default(),
            unusable: Family::default(),
        };
        metrics.register_requests(registry);
        metrics.register_keeping(registry);
        metrics
    }

    fn register_requests(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "llm_cache_hit_ratio",
            "Requests of the last five minutes that no worker was asked for, of all that the cache saw, bypasses included; absent where there were none",
            self.ratio.clone(),
        );
        registry.register(
            "llm_request_duration_seconds",
            "From a request's head to its answer's last byte, where there is a cache",
            self.duration.clone(),
        );
        registry.register(
            "overdraft_cache_requests",
            "Requests by what the cache had to do with them",
            self.requests.clone(),
        );
        registry.register(
            "overdraft_cache_bypasses",
            "Requests that were not looked up, by why",
            self.bypasses.clone(),
        );
        registry.register(
            "overdraft_cache_lookups",
            "Look-ups in memory and at the store, by what they found",
            self.lookups.clone(),
        );
        registry.register(
            "overdraft_cache_seconds_saved",
            "Time that it took to make the answers that were given again",
            self.seconds_saved.clone(),
        );
        registry.register(
            "overdraft_cache_tokens_saved",
            "Tokens, of prompts and answers, that were not computed again",
            self.tokens_saved.clone(),
        );
    }

    fn register_keeping(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_cache_unkept",
            "Answers that were not kept, by why",
            self.unkept.clone(),
        );
        registry.register(
            "overdraft_cache_evictions",
            "Answers that were let go of, by why",
            self.evictions.clone(),
        );
        registry.register(
            "overdraft_cache_stores",
            "Answers that were put where other gateways find them",
            self.puts.clone(),
        );
        registry.register(
            "overdraft_cache_bytes",
            "Bytes of answers kept in memory",
            self.bytes.clone(),
        );
        registry.register(
            "overdraft_cache_entries",
            "Answers kept in memory",
            self.entries.clone(),
        );
        registry.register(
            "overdraft_cache_store_faults",
            "Commands of the cache to the store that had no result, by why",
            self.faults.clone(),
        );
        registry.register(
            "overdraft_cache_unusable",
            "What lay at the store and was no answer to the request, by why",
            self.unusable.clone(),
        );
    }

    /// A request was answered from what is kept (`hit`), by a worker (`miss`), together with another
    /// (`coalesced`), or not looked up (`bypass`).
    pub fn requested(&self, result: &'static str) {
        self.requests.get_or_create(&[("result", result)]).inc();
    }

    /// A request was not looked up, for this reason.
    pub fn bypassed(&self, reason: &'static str) {
        self.bypasses.get_or_create(&[("reason", reason)]).inc();
    }

    /// Something was looked for.
    pub fn looked_up(&self, tier: &'static str, result: &'static str) {
        self.lookups.get_or_create(&[("tier", tier), ("result", result)]).inc();
    }

    /// An answer was not kept, for this reason.
    pub fn unkept(&self, reason: &'static str) {
        self.unkept.get_or_create(&[("reason", reason)]).inc();
    }

    /// So many answers were let go of.
    pub fn evicted(&self, reason: &'static str, count: usize) {
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.evictions.get_or_create(&[("reason", reason)]).inc_by(count);
        }
    }

    /// An answer went to the store, or did not.
    pub fn put(&self, result: &'static str) {
        self.puts.get_or_create(&[("result", result)]).inc();
    }

    /// This much was not computed again.
    pub fn saved(&self, time: Duration, tokens: u32) {
        self.seconds_saved.inc_by(time.as_secs_f64());
        self.tokens_saved.inc_by(u64::from(tokens));
    }

    /// A request that the cache saw is over; `model` is bounded by the caller.
    pub fn ended(&self, result: &'static str, model: &str, total: Micros) {
        let hit = if matches!(result, "hit" | "coalesced") { "true" } else { "false" };
        let labels = [("cache_hit", hit.to_owned()), ("model", model.to_owned())];
        self.duration.get_or_create(&labels).observe(seconds(total));
    }

    /// What became of requests since the start.
    pub fn counts(&self) -> CacheCounts {
        let count = |result| self.requests.get_or_create(&[("result", result)]).get();
        CacheCounts {
            hits: count("hit"),
            misses: count("miss"),
            coalesced: count("coalesced"),
            bypasses: count("bypass"),
            would_hit: count("would_hit"),
            would_miss: count("would_miss"),
        }
    }

    /// Sets what is read off at `now`.
    pub fn set(&self, gauges: &CacheGauges, now: Instant) {
        let CacheCounts { hits, misses, coalesced, bypasses, .. } = self.counts();
        let served = hits.saturating_add(coalesced);
        let all = served.saturating_add(misses).saturating_add(bypasses);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        self.ratio.set(recent.read(served, all, now).map(|(served, all)| ratio(served, all)));
        drop(recent);
        self.bytes.set(i64::try_from(gauges.bytes).unwrap_or(i64::MAX));
        self.entries.set(i64::try_from(gauges.entries).unwrap_or(i64::MAX));
        for (family, label, counts) in
            [(&self.faults, "kind", &gauges.faults), (&self.unusable, "reason", &gauges.unusable)]
        {
            for (word, count) in counts {
                let counter = family.get_or_create(&[(label, *word)]);
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
    }
}

/// A part of a whole, to a millionth.
fn ratio(part: u64, whole: u64) -> f64 {
    let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u32::try_from(millionths).map_or(1.0, f64::from) / 1e6
}
