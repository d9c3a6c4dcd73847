//! From what the engine tells to what vLLM's dashboards show.
//!
//! The engine's thread reports times as they happen; counts are copied from its statistics at each
//! scrape. Nothing counts before the warm-up is over: its tokens are subtracted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_core::estimate::SlidingRatio;
use overdraft_engine::{EngineStats, ModelShape, Observation, Observer, SpeculationStats};
use overdraft_telemetry::metrics::{
    CacheFacts, Exposition, KvShareMetrics, MetricNames, RequestFacts, SpeculationFacts,
    WorkerIdentity, WorkerMetrics, WorkerState,
};
use overdraft_units::{Instant, Micros};

/// The metrics of one engine; clones are the same ones.
#[derive(Clone, Debug)]
pub struct EngineMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    catalogue: WorkerMetrics,
    counting: AtomicBool,
    before: Mutex<EngineStats>,
    /// Accepted of drafted tokens of late.
    recent: Mutex<SlidingRatio>,
}

impl EngineMetrics {
    /// Metrics of a model served as `model`.
    pub fn new(model: &str, shape: ModelShape, names: MetricNames) -> Self {
        let identity = identity(model, shape);
        Self::of(WorkerMetrics::new(&identity, names))
    }

    /// The same of an engine that can guess ahead.
    pub fn speculating(model: &str, shape: ModelShape, names: MetricNames) -> Self {
        let identity = identity(model, shape);
        Self::of(WorkerMetrics::new(&identity, names).speculating(&identity, names))
    }

    /// The same of an engine that shares its blocks, and perhaps guesses ahead.
    pub fn sharing(
        model: &str,
        shape: ModelShape,
        names: MetricNames,
        speculates: bool,
    ) -> (Self, KvShareMetrics) {
        let identity = identity(model, shape);
        let mut catalogue = WorkerMetrics::new(&identity, names);
        if speculates {
            catalogue = catalogue.speculating(&identity, names);
        }
        let shared = catalogue.sharing(&identity);
        (Self::of(catalogue), shared)
    }

    fn of(catalogue: WorkerMetrics) -> Self {
        Self(Arc::new(Inner {
            catalogue,
            counting: AtomicBool::new(false),
            before: Mutex::new(EngineStats::default()),
            recent: Mutex::new(SlidingRatio::new()),
        }))
    }

    /// What the engine is to be started with.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.clone())
    }

    /// From here on everything counts.
    pub(crate) fn begin(&self, before: &EngineStats) {
        *self.0.before.lock().unwrap_or_else(PoisonError::into_inner) = *before;
        self.0.counting.store(true, Ordering::Release);
    }

    pub(crate) fn catalogue(&self) -> &WorkerMetrics {
        &self.0.catalogue
    }

    /// Everything, as a scraper reads it.
    pub(crate) fn expose(
        &self,
        now: &EngineStats,
        exposition: Exposition,
        moment: Instant,
    ) -> String {
        let before = self.before();
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let (batch, earlier) = (now.batch, before.batch);
        self.0.catalogue.update(&WorkerState {
            running: batch.running,
            waiting: batch.waiting,
            cache_usage: now.cache_usage(),
            prefix_queried: since(batch.prefix_queried, earlier.prefix_queried),
            prefix_hit: since(batch.prefix_hit, earlier.prefix_hit),
            preemptions: since(batch.preemptions, earlier.preemptions),
            prompt_tokens: since(now.prompt_tokens, before.prompt_tokens),
            generation_tokens: since(now.generation_tokens, before.generation_tokens),
        });
        if now.speculation.enabled {
            let facts = speculation_facts(&now.speculation, &before.speculation);
            let recent_acceptance = self.acceptance(now, moment);
            let facts = SpeculationFacts { recent_acceptance, ..facts };
            self.0.catalogue.update_speculation(&facts);
        }
        self.0.catalogue.encode(exposition)
    }

    fn before(&self) -> EngineStats {
        *self.0.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepted of drafted tokens of late; none where nothing was drafted.
    pub(crate) fn acceptance(&self, now: &EngineStats, moment: Instant) -> Option<f64> {
        let since = now.speculation.since(&self.before().speculation);
        let mut recent = self.0.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = recent.read(since.accepted_tokens, since.draft_tokens, moment);
        seen.map(|(accepted, drafted)| share(accepted, drafted))
    }
}

fn identity(model: &str, shape: ModelShape) -> WorkerIdentity {
    WorkerIdentity {
        model: model.to_owned(),
        context: shape.context,
        cache: CacheFacts { block_size: shape.block_size.get(), blocks: shape.blocks },
    }
}

/// What guessing brought since the warm-up was over.
fn speculation_facts(now: &SpeculationStats, before: &SpeculationStats) -> SpeculationFacts {
    let since = now.since(before);
    SpeculationFacts {
        drafts: since.drafts,
        draft_tokens: since.draft_tokens,
        accepted_tokens: since.accepted_tokens,
        dropped_tokens: since.dropped_tokens,
        accepted_per_position: since.accepted_per_position.to_vec(),
        acceptance_rate: since.acceptance_rate(),
        recent_acceptance: None,
        tokens_per_step: since.tokens_per_step(),
        depth: now.depth,
        draft_seconds: seconds(since.draft_time),
        verify_seconds: seconds(since.verify_time),
        policy: now.policy,
        reason: now.reason.name(),
        changes: since.changes,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for a metric")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[expect(clippy::cast_precision_loss, reason = "a time for a metric")]
fn seconds(time: Micros) -> f64 {
    time.get() as f64 / 1e6
}

impl Observer for EngineMetrics {
    fn observe(&mut self, observation: &Observation) {
        if !self.0.counting.load(Ordering::Acquire) {
            return;
        }
        let catalogue = &self.0.catalogue;
        match *observation {
            Observation::StepRan { tokens, .. } => catalogue.step_ran(tokens),
            Observation::FirstToken { waited } => catalogue.first_token(waited),
            Observation::NextToken { gap } => catalogue.next_token(gap),
            Observation::Ended(record) => catalogue.request_ended(&RequestFacts {
                reason: record.end.as_str(),
                prompt: record.usage.prompt,
                cached: record.usage.cached,
                completion: record.usage.completion,
                output_max: record.output_max,
                total: record.total,
                queued: record.queued,
                prefill: record.prefill,
                decode: record.decode,
                preemptions: record.preemptions,
            }),
            _ => {}
        }
    }
}
