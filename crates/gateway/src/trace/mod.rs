//! Traces of requests: what is kept of a sampled one until its spans are built at its end.
//!
//! A request that is not sampled carries its ids alone, for its workers; where tracing is off it carries nothing.
//! Of a sampled one, attempts and events are noted with their times, and `pipeline/spans.rs` makes spans of these
//! and of the request's facts. Prompts and answers are in none of them.

mod attempt;
mod recording;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use overdraft_otlp::{
    Attribute, Ids, Sampled, Sampler, Span, SpanQueue, SpanSource, TraceContext, queue,
};
use overdraft_telemetry::metrics::TraceMetrics;
use overdraft_telemetry::{Clock, unix_time};
use overdraft_units::Instant;

pub(crate) use self::attempt::{AttemptTrace, Callee, SpanTokens};
use self::recording::Caller;
pub(crate) use self::recording::{AttemptNote, EventNote, Notes, Recording};
use crate::settings::{GenAi, TracingSettings};

pub(crate) const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// Bytes of a `tracestate` that is kept.
const STATE_BYTES_MAX: usize = 512;

/// Makes traces.
#[derive(Debug)]
pub(crate) struct Tracer {
    sampler: Sampler,
    ids: Ids,
    queue: SpanQueue,
    clock: Clock,
    pub(crate) gen_ai: GenAi,
}

impl Tracer {
    /// A tracer, and where an exporter takes its spans from.
    pub(crate) fn new(
        settings: &TracingSettings,
        clock: Clock,
        metrics: TraceMetrics,
    ) -> (Self, SpanSource) {
        let (queue, source) = queue(metrics);
        let sampler = Sampler::new(settings.sample_permille, settings.parents);
        let tracer = Self { sampler, ids: Ids::random(), queue, clock, gen_ai: settings.gen_ai };
        (tracer, source)
    }

    /// Begins the trace of a request, or goes on with its caller's.
    pub(crate) fn begin(self: &Arc<Self>, request: &str, head: &HeaderMap) -> RequestTrace {
        let parent = parent(head);
        let trace = parent.map_or_else(|| self.ids.trace(), |parent| parent.trace);
        let sampled = self.sampler.decide(trace, parent.map(|parent| parent.sampled));
        if sampled == Sampled::No {
            let span = parent.map_or_else(|| self.ids.span(), |parent| parent.span);
            return RequestTrace::Passed(TraceContext { trace, span, sampled });
        }
        let context = TraceContext { trace, span: self.ids.span(), sampled };
        let state = parent.and_then(|_| state(head));
        let parent = parent.map(|parent| parent.span);
        let recording =
            Recording::new(Arc::clone(self), context, request, Caller { span: parent, state });
        RequestTrace::Sampled(Arc::new(recording))
    }

    /// Leaves the spans of a request that has ended.
    pub(crate) fn finish(&self, spans: Vec<Span>) {
        self.queue.push(spans);
    }

    /// How instants of the process's clock become nanoseconds since 1970.
    pub(crate) fn calendar(&self) -> Calendar {
        Calendar { now: self.clock.now(), now_ns: nanoseconds(unix_time()) }
    }
}

/// One moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    now: Instant,
    now_ns: u64,
}

impl Calendar {
    /// The moment that this is of.
    pub(crate) const fn now(self) -> Instant {
        self.now
    }

    /// Nanoseconds since 1970.
    pub(crate) fn of(self, at: Instant) -> u64 {
        self.now_ns.saturating_sub(self.now.since(at).get().saturating_mul(1_000))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds since 1970 are neither negative nor beyond 64 bits"
)]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// The caller's context, if its head names exactly one.
pub(crate) fn parent(head: &HeaderMap) -> Option<TraceContext> {
    let mut values = head.get_all(TRACE_PARENT).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    TraceContext::parse(value.as_bytes())
}

fn state(head: &HeaderMap) -> Option<Box<str>> {
    let state = head.get(TRACE_STATE)?.to_str().ok()?;
    (state.len() <= STATE_BYTES_MAX).then(|| state.into())
}

/// The trace of one request.
#[derive(Clone, Debug, Default)]
pub(crate) enum RequestTrace {
    /// Tracing is off.
    #[default]
    Off,
    /// It is not sampled: its ids are passed on.
    Passed(TraceContext),
    /// It is.
    Sampled(Arc<Recording>),
}

impl RequestTrace {
    /// Notes that something happens now.
    pub(crate) fn event(&self, name: &'static str, attributes: impl FnOnce() -> Vec<Attribute>) {
        if let Self::Sampled(recording) = self {
            recording.event(name, attributes());
        }
    }

    /// A worker is asked.
    pub(crate) fn attempt(&self, callee: impl FnOnce() -> Callee) -> AttemptTrace {
        match self {
            Self::Off => AttemptTrace::Off,
            Self::Passed(context) => AttemptTrace::Passed(*context),
            Self::Sampled(recording) => AttemptTrace::begin(Arc::clone(recording), callee()),
        }
    }

    /// What is recorded, of a sampled one.
    pub(crate) const fn recording(&self) -> Option<&Arc<Recording>> {
        match self {
            Self::Sampled(recording) => Some(recording),
            Self::Off | Self::Passed(_) => None,
        }
    }
}

/// Tells a worker which trace a call belongs to.
fn tell(context: TraceContext, head: &mut HeaderMap) {
    let value =
        HeaderValue::from_bytes(&context.header()).expect("digits and dashes are printable");
    head.insert(TRACE_PARENT, value);
}
