//! Worker metrics, under vLLM's current names, those up to 0.6, or both.
//!
//! The old catalogue labels everything with `model_name` only; the current one adds `engine`, the
//! rank of a data-parallel replica, always `"0"` here. With both, old names that are still in use
//! appear once, with the current labels. Counters that the scheduler keeps are copied at each scrape
//! from [`WorkerState`]; times arrive one by one.

use std::sync::atomic::{AtomicU64, Ordering};

use overdraft_units::{Blocks, Micros, Tokens};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::buckets::{
    CHOICES, FIRST_TOKEN, NEXT_TOKEN, PREEMPTIONS, REQUEST, STEP, one_two_five, seconds,
};
use super::exposition::Exposition;
use super::kv_share::KvShareMetrics;
use super::speculation::{SpeculationFacts, SpeculationMetrics};

type Labels = [(&'static str, &'static str); 1];
pub(super) type RatioGauge = Gauge<f64, AtomicU64>;

/// Which names a worker exposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricNames {
    /// vLLM 0.10 and later.
    #[default]
    Current,
    /// vLLM up to 0.6.
    V06,
    /// All of them.
    Both,
}

/// What does not change while a worker runs.
#[derive(Clone, Debug)]
pub struct WorkerIdentity {
    /// The name it serves its model under.
    pub model: String,
    /// Prompt plus completion of one request at most.
    pub context: Tokens,
    /// Its key-value cache.
    pub cache: CacheFacts,
}

/// A worker's key-value cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheFacts {
    /// Tokens per page.
    pub block_size: u32,
    /// Pages.
    pub blocks: Blocks,
}

/// The scheduler's counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerState {
    /// Sequences that hold pages.
    pub running: u32,
    /// Sequences that wait.
    pub waiting: u32,
    /// Share of the pages that running sequences hold.
    pub cache_usage: f64,
    /// Prompt tokens looked up in the prefix cache so far.
    pub prefix_queried: u64,
    /// Prompt tokens found there so far.
    pub prefix_hit: u64,
    /// Times a running sequence lost its pages so far.
    pub preemptions: u64,
    /// Prompt tokens computed or found so far.
    pub prompt_tokens: u64,
    /// Completion tokens so far.
    pub generation_tokens: u64,
}

/// What became of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts {
    /// `stop`, `length`, `abort` or `error`.
    pub reason: &'static str,
    /// Prompt tokens.
    pub prompt: Tokens,
    /// Of those, found in the prefix cache.
    pub cached: Tokens,
    /// Completion tokens.
    pub completion: Tokens,
    /// Completion tokens it might have had.
    pub output_max: Tokens,
    /// From submission to the end.
    pub total: Micros,
    /// From submission to its first step.
    pub queued: Micros,
    /// From its first step to its first token.
    pub prefill: Micros,
    /// From its first token to its last.
    pub decode: Micros,
    /// Times it lost its pages.
    pub preemptions: u32,
}

/// The worker's catalogue.
#[derive(Debug)]
pub struct WorkerMetrics {
    pub(super) registry: Registry,
    pub(super) running: Gauge,
    pub(super) waiting: Gauge,
    pub(super) waiting_by_reason: Family<Labels, Gauge>,
    pub(super) cache_usage: RatioGauge,
    pub(super) hit_rate: RatioGauge,
    pub(super) prefix_queried: Counter,
    pub(super) prefix_hit: Counter,
    pub(super) preemptions: Counter,
    pub(super) prompt_tokens: Counter,
    pub(super) prompt_by_source: Family<Labels, Counter>,
    pub(super) generation_tokens: Counter,
    pub(super) tokens: Counter,
    pub(super) success: Family<Labels, Counter>,
    pub(super) rejections: Counter,
    pub(super) step_tokens: Histogram,
    pub(super) first_token: Histogram,
    pub(super) next_token: Histogram,
    pub(super) requests: RequestHistograms,
    /// Where there is a drafter.
    speculation: Option<SpeculationMetrics>,
}

/// One observation per request each.
#[derive(Debug)]
pub(super) struct RequestHistograms {
    pub(super) per_token: Histogram,
    pub(super) total: Histogram,
    pub(super) queued: Histogram,
    pub(super) inference: Histogram,
    pub(super) prefill: Histogram,
    pub(super) decode: Histogram,
    pub(super) prompt: Histogram,
    pub(super) completion: Histogram,
    pub(super) output_max: Histogram,
    pub(super) computed: Histogram,
    pub(super) preemptions: Histogram,
    pub(super) choices: Histogram,
}

impl RequestHistograms {
    fn new(context: Tokens) -> Self {
        let tokens = || Histogram::new(one_two_five(context.get()));
        let time = || Histogram::new(REQUEST);
        Self {
            per_token: Histogram::new(NEXT_TOKEN),
            total: time(),
            queued: time(),
            inference: time(),
            prefill: time(),
            decode: time(),
            prompt: tokens(),
            completion: tokens(),
            output_max: tokens(),
            computed: tokens(),
            preemptions: Histogram::new(PREEMPTIONS),
            choices: Histogram::new(CHOICES),
        }
    }
}

impl WorkerMetrics {
    /// An empty catalogue under the wanted names.
    pub fn new(identity: &WorkerIdentity, names: MetricNames) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            waiting_by_reason: Family::default(),
            cache_usage: RatioGauge::default(),
            hit_rate: RatioGauge::default(),
            prefix_queried: Counter::default(),
            prefix_hit: Counter::default(),
            preemptions: Counter::default(),
            prompt_tokens: Counter::default(),
            prompt_by_source: Family::default(),
            generation_tokens: Counter::default(),
            tokens: Counter::default(),
            success: Family::default(),
            rejections: Counter::default(),
            step_tokens: Histogram::new(STEP),
            first_token: Histogram::new(FIRST_TOKEN),
            next_token: Histogram::new(NEXT_TOKEN),
            requests: RequestHistograms::new(identity.context),
            speculation: None,
        };
        metrics.expose(identity, names);
        // A scraper should see every series from the start, as zero.
        for reason in ["stop", "length", "abort", "error"] {
            drop(metrics.success.get_or_create(&[("finished_reason", reason)]));
        }
        metrics.update(&WorkerState::default());
        metrics
    }

    /// The same of a worker that can guess ahead.
    #[must_use]
    pub fn speculating(mut self, identity: &WorkerIdentity, names: MetricNames) -> Self {
        let metrics = SpeculationMetrics::new(&mut self.registry, &identity.model, names);
        metrics.update(&SpeculationFacts::default());
        self.speculation = Some(metrics);
        self
    }

    /// The same of a worker that shares its blocks, and where to count them.
    pub fn sharing(&mut self, identity: &WorkerIdentity) -> KvShareMetrics {
        KvShareMetrics::new(&mut self.registry, &identity.model)
    }

    /// Takes over what guessing brought; call it before [`encode`](Self::encode).
    pub fn update_speculation(&self, facts: &SpeculationFacts) {
        if let Some(metrics) = &self.speculation {
            metrics.update(facts);
        }
    }

    /// A step computed that many positions.
    pub fn step_ran(&self, tokens: Tokens) {
        self.step_tokens.observe(f64::from(tokens.get()));
    }

    /// A request got its first token that long after it was submitted.
    pub fn first_token(&self, waited: Micros) {
        self.first_token.observe(seconds(waited));
    }

    /// A request got another token that long after the one before.
    pub fn next_token(&self, gap: Micros) {
        self.next_token.observe(seconds(gap));
    }

    /// A request asked for that many choices.
    pub fn request_begun(&self, choices: u32) {
        self.requests.choices.observe(f64::from(choices));
    }

    /// A request was refused because too many wait.
    pub fn rejected(&self) {
        self.rejections.inc();
    }

    /// A request ended.
    pub fn request_ended(&self, facts: &RequestFacts) {
        let requests = &self.requests;
        self.success.get_or_create(&[("finished_reason", facts.reason)]).inc();
        requests.total.observe(seconds(facts.total));
        requests.queued.observe(seconds(facts.queued));
        requests.prefill.observe(seconds(facts.prefill));
        requests.decode.observe(seconds(facts.decode));
        requests.inference.observe(seconds(facts.prefill + facts.decode));
        requests.prompt.observe(f64::from(facts.prompt.get()));
        requests.completion.observe(f64::from(facts.completion.get()));
        requests.output_max.observe(f64::from(facts.output_max.get()));
        requests.preemptions.observe(f64::from(facts.preemptions));
        let computed = facts.prompt.checked_sub(facts.cached).unwrap_or(Tokens::ZERO);
        requests.computed.observe(f64::from(computed.get()));
        if facts.completion.get() > 1 {
            let gaps = f64::from(facts.completion.get() - 1);
            requests.per_token.observe(seconds(facts.decode) / gaps);
        }
    }

    /// Takes over the scheduler's counts; call it before [`encode`](Self::encode).
    pub fn update(&self, state: &WorkerState) {
        self.running.set(i64::from(state.running));
        self.waiting.set(i64::from(state.waiting));
        let waiting = |reason| self.waiting_by_reason.get_or_create_owned(&[("reason", reason)]);
        waiting("capacity").set(i64::from(state.waiting));
        waiting("deferred").set(0);
        self.cache_usage.set(state.cache_usage);
        self.hit_rate.set(ratio(state.prefix_hit, state.prefix_queried));
        set(&self.prefix_queried, state.prefix_queried);
        set(&self.prefix_hit, state.prefix_hit);
        set(&self.preemptions, state.preemptions);
        set(&self.prompt_tokens, state.prompt_tokens);
        set(&self.generation_tokens, state.generation_tokens);
        set(&self.tokens, state.prompt_tokens + state.generation_tokens);
        let computed = state.prompt_tokens.saturating_sub(state.prefix_hit);
        for (source, count) in [
            ("local_compute", computed),
            ("local_cache_hit", state.prefix_hit),
            ("external_kv_transfer", 0),
        ] {
            set(&self.prompt_by_source.get_or_create_owned(&[("source", source)]), count);
        }
    }

    /// Everything, as a scraper reads it.
    pub fn encode(&self, exposition: Exposition) -> String {
        exposition.encode(&self.registry)
    }
}

/// A counter whose count is kept elsewhere.
fn set(counter: &Counter, count: u64) {
    counter.inner().store(count, Ordering::Relaxed);
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 15 digits")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
