//! Span: one piece of a request's work, with its times, attributes and events.

use std::borrow::Cow;

use crate::context::{SpanId, TraceId};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// True or false.
    Flag(bool),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Something said of a span, an event or the process.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub key: Cow<'static, str>,
    /// Its value.
    pub value: Value,
}

impl Attribute {
    /// An attribute with a name of ours or of a convention.
    pub fn new(key: &'static str, value: impl Into<Value>) -> Self {
        Self { key: Cow::Borrowed(key), value: value.into() }
    }
}

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The side that answers.
    Server,
    /// The side that asks.
    Client,
}

/// How the work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Without a fault of this side.
    Fine,
    /// With one, in a word.
    Failed(Cow<'static, str>),
}

/// A moment of a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// What happened.
    pub name: &'static str,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Its own id.
    pub id: SpanId,
    /// The span that it is a part of, if any.
    pub parent: Option<SpanId>,
    /// Whether that span is another process's.
    pub is_parent_remote: bool,
    /// What callers along the way told their own tools, unread.
    pub state: Option<Box<str>>,
    /// A name of which there are few.
    pub name: Cow<'static, str>,
    /// Which side of a call.
    pub kind: Kind,
    /// Nanoseconds since 1970.
    pub begun_ns: u64,
    /// Nanoseconds since 1970.
    pub ended_ns: u64,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
    /// What happened meanwhile.
    pub events: Vec<SpanEvent>,
    /// Events that there was no room for.
    pub events_dropped: u32,
    /// How it ended.
    pub outcome: Outcome,
}
