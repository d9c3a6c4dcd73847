//! Encoding of a batch of spans as an OTLP request.

use bytes::Bytes;
use prost::Message;

use crate::context::SpanId;
use crate::message::{
    AnyValue, EventMessage, ExportRequest, KeyValue, OneValue, Resource, ResourceSpans, Scope,
    ScopeSpans, SpanMessage, Status,
};
use crate::span::{Attribute, Kind, Outcome, Span, SpanEvent, Value};

/// What the collector calls the code that makes the spans.
const SCOPE: &str = "overdraft";

/// Flags of a span: it is sampled; whether its parent is remote is known; it is.
const SAMPLED_FLAG: u32 = 1;
const PARENT_KNOWN_FLAG: u32 = 1 << 8;
const PARENT_REMOTE_FLAG: u32 = 1 << 9;

/// The code of a failure.
const FAILED: i32 = 2;

/// The body of one export request.
pub(crate) fn encode(resource: &[Attribute], spans: Vec<Span>) -> Bytes {
    let request = ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: resource.iter().cloned().map(pair).collect() }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope {
                    name: SCOPE.to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                spans: spans.into_iter().map(span).collect(),
            }],
        }],
    };
    request.encode_to_vec().into()
}

fn span(span: Span) -> SpanMessage {
    let remote = if span.is_parent_remote { PARENT_REMOTE_FLAG } else { 0 };
    let status = match span.outcome {
        Outcome::Fine => None,
        Outcome::Failed(why) => Some(Status { message: why.into_owned(), code: FAILED }),
    };
    SpanMessage {
        trace_id: span.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        trace_state: span.state.map(String::from).unwrap_or_default(),
        parent_span_id: span.parent.map(|SpanId(id)| id.to_vec()).unwrap_or_default(),
        flags: SAMPLED_FLAG | PARENT_KNOWN_FLAG | remote,
        name: span.name.into_owned(),
        kind: match span.kind {
            Kind::Server => 2,
            Kind::Client => 3,
        },
        start_time_unix_nano: span.begun_ns,
        end_time_unix_nano: span.ended_ns,
        attributes: span.attributes.into_iter().map(pair).collect(),
        events: span.events.into_iter().map(event).collect(),
        dropped_events_count: span.events_dropped,
        status,
    }
}

fn event(event: SpanEvent) -> EventMessage {
    EventMessage {
        time_unix_nano: event.at_ns,
        name: event.name.to_owned(),
        attributes: event.attributes.into_iter().map(pair).collect(),
    }
}

fn pair(attribute: Attribute) -> KeyValue {
    let value = match attribute.value {
        Value::Text(text) => OneValue::Text(text.into_owned()),
        Value::Int(number) => OneValue::Int(number),
        Value::Float(number) => OneValue::Float(number),
        Value::Flag(flag) => OneValue::Flag(flag),
    };
    KeyValue { key: attribute.key.into_owned(), value: Some(AnyValue { value: Some(value) }) }
}
