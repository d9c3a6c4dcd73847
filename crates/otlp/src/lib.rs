//! OTLP exporter: spans of requests go to an OpenTelemetry collector, in protobuf over HTTP.
//!
//! | subject                                     | file           |
//! |---------------------------------------------|----------------|
//! | W3C `traceparent`                           | `context.rs`   |
//! | Trace and span ids                          | `ids.rs`       |
//! | Head sampling                               | `sampler.rs`   |
//! | A span as its maker describes it            | `span.rs`      |
//! | The protobuf messages, and spans as these   | `message.rs`, `encode.rs` |
//! | The bounded queue                           | `queue.rs`     |
//! | The collector, and how batches get there    | `endpoint.rs`, `collector.rs`, `exporter.rs` |
//!
//! The messages are written by hand with `prost`'s derive, as the scaler's are: no `protoc` and no SDK. The SDK's
//! batch processor is a thread with a runtime question of its own, and its spans cost at every start; ours are
//! built once, at a sampled request's end. Tests decode what is sent with the official messages.
//!
//! **Invariant.** Nothing here makes a request wait: a full queue drops, a collector that is slow or dead
//! only fills the queue, and every span that is lost is counted.

mod collector;
mod context;
mod encode;
mod endpoint;
mod exporter;
mod ids;
mod message;
mod queue;
mod sampler;
mod span;

pub use self::context::{Sampled, SpanId, TraceContext, TraceId};
pub use self::endpoint::{Endpoint, EndpointError};
pub use self::exporter::{Exporter, ExporterSettings, Header, HeaderError};
pub use self::ids::Ids;
pub use self::queue::{QUEUE_TRACES_MAX, SpanQueue, SpanSource, queue};
pub use self::sampler::{Parents, Sampler};
pub use self::span::{Attribute, Kind, Outcome, Span, SpanEvent, Value};

#[cfg(test)]
mod tests;
