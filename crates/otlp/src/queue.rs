//! Span queue: from requests that have ended to the exporter. A full queue drops, and counts what it drops.

use overdraft_telemetry::metrics::TraceMetrics;
use tokio::sync::mpsc;

use crate::span::Span;

/// Traces that wait for the exporter at most, each with the spans of one request.
pub const QUEUE_TRACES_MAX: usize = 2_048;

/// Where ended requests leave their spans.
#[derive(Clone, Debug)]
pub struct SpanQueue {
    sender: mpsc::Sender<Vec<Span>>,
    metrics: TraceMetrics,
}

/// Where the exporter takes them from.
#[derive(Debug)]
pub struct SpanSource {
    pub(crate) receiver: mpsc::Receiver<Vec<Span>>,
    pub(crate) metrics: TraceMetrics,
}

/// A queue of [`QUEUE_TRACES_MAX`] traces.
pub fn queue(metrics: TraceMetrics) -> (SpanQueue, SpanSource) {
    let (sender, receiver) = mpsc::channel(QUEUE_TRACES_MAX);
    (SpanQueue { sender, metrics: metrics.clone() }, SpanSource { receiver, metrics })
}

impl SpanQueue {
    /// Leaves the spans of one request. Never waits.
    pub fn push(&self, spans: Vec<Span>) {
        let count = spans.len();
        if self.sender.try_send(spans).is_err() {
            self.metrics.dropped("queue_full", count);
        }
    }
}
