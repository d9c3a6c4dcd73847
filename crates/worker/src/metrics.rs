//! From what the engine tells to what vLLM's dashboards show.
//!
//! The engine's thread reports times as they happen; counts are copied from its statistics at each
//! scrape. Nothing counts before the warm-up is over: its tokens are subtracted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_engine::{EngineStats, ModelShape, Observation, Observer};
use overdraft_telemetry::metrics::{
    CacheFacts, Exposition, MetricNames, RequestFacts, WorkerIdentity, WorkerMetrics, WorkerState,
};

/// The metrics of one engine; clones are the same ones.
#[derive(Clone, Debug)]
pub struct EngineMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    catalogue: WorkerMetrics,
    counting: AtomicBool,
    before: Mutex<EngineStats>,
}

impl EngineMetrics {
    /// Metrics of a model served as `model`.
    pub fn new(model: &str, shape: ModelShape, names: MetricNames) -> Self {
        let identity = WorkerIdentity {
            model: model.to_owned(),
            context: shape.context,
            cache: CacheFacts { block_size: shape.block_size.get(), blocks: shape.blocks },
        };
        Self(Arc::new(Inner {
            catalogue: WorkerMetrics::new(&identity, names),
            counting: AtomicBool::new(false),
            before: Mutex::new(EngineStats::default()),
        }))
    }

    /// What the engine is to be started with.
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.clone())
    }

    /// From here on everything counts.
    pub(crate) fn begin(&self, before: EngineStats) {
        *self.0.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        self.0.counting.store(true, Ordering::Release);
    }

    pub(crate) fn catalogue(&self) -> &WorkerMetrics {
        &self.0.catalogue
    }

    /// Everything, as a scraper reads it.
    pub(crate) fn expose(&self, now: EngineStats, exposition: Exposition) -> String {
        let before = *self.0.before.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.0.catalogue.encode(exposition)
    }
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
