//! Metrics of tracing: how many spans reached the collector, and how many were lost where.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::registry::DescribedRegistry;

type Labels = [(&'static str, &'static str); 1];

/// Where spans are lost.
const REASONS: [&str; 3] = ["queue_full", "unsent", "refused"];

/// The catalogue of tracing; copies count the same.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    exported: Counter,
    dropped: Family<Labels, Counter>,
}

impl TraceMetrics {
    /// The catalogue, entered into `registry`. Every series is there from the start, so that a first loss is seen.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self { exported: Counter::default(), dropped: Family::default() };
        for reason in REASONS {
            drop(metrics.dropped.get_or_create(&[("reason", reason)]));
        }
        registry.register(
            "overdraft_trace_spans_exported",
            "Spans that the trace collector took",
            metrics.exported.clone(),
        );
        registry.register(
            "overdraft_trace_spans_dropped",
            "Spans that were lost: the queue was full, the collector could not be reached, or it refused them",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// The collector took so many.
    pub fn exported(&self, spans: usize) {
        self.exported.inc_by(u64::try_from(spans).unwrap_or(u64::MAX));
    }

    /// So many were lost for that reason.
    pub fn dropped(&self, reason: &'static str, spans: usize) {
        let count = u64::try_from(spans).unwrap_or(u64::MAX);
        self.dropped.get_or_create(&[("reason", reason)]).inc_by(count);
    }
}
