//! Trace context: W3C `traceparent`, as it comes from a client and as it goes to a worker.
//!
//! <https://www.w3.org/TR/trace-context/>. A header that does not parse is no context: the trace begins
//! here then, and the bad header goes no further.

use data_encoding::HEXLOWER;

/// Bytes of a `traceparent` of version 00: `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const HEADER_BYTES: usize = 55;

/// Where its parts begin.
const TRACE_AT: usize = 3;
const SPAN_AT: usize = 36;
const FLAGS_AT: usize = 53;

/// The bit that says that the caller records the trace.
const SAMPLED_FLAG: u8 = 1;

/// One trace, over all services that take part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

/// One span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub [u8; 8]);

/// Whether a trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// It is not; ids are passed on all the same.
    No,
    /// It is.
    Yes,
}

/// What one service tells the next of the trace that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span under which the call is made.
    pub span: SpanId,
    /// Whether the caller records it.
    pub sampled: Sampled,
}

impl TraceContext {
    /// Reads the value of a `traceparent` header. A later version may have more behind the flags.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let [version] = digits(value.get(..2)?)?;
        let rest = value.get(HEADER_BYTES..)?;
        let is_end_fine = match version {
            0xff => false,
            0 => rest.is_empty(),
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let dashes = [TRACE_AT, SPAN_AT, FLAGS_AT].iter().all(|at| value[at - 1] == b'-');
        if !is_end_fine || !dashes {
            return None;
        }
        let trace = digits::<16>(&value[TRACE_AT..SPAN_AT - 1])?;
        let span = digits::<8>(&value[SPAN_AT..FLAGS_AT - 1])?;
        let [flags] = digits(&value[FLAGS_AT..HEADER_BYTES])?;
        if trace == [0; 16] || span == [0; 8] {
            return None;
        }
        let sampled = if flags & SAMPLED_FLAG == 0 { Sampled::No } else { Sampled::Yes };
        Some(Self { trace: TraceId(trace), span: SpanId(span), sampled })
    }

    /// The value of a `traceparent` header, of version 00.
    pub fn header(self) -> [u8; HEADER_BYTES] {
        let mut value = *b"00-00000000000000000000000000000000-0000000000000000-00";
        HEXLOWER.encode_mut(&self.trace.0, &mut value[TRACE_AT..SPAN_AT - 1]);
        HEXLOWER.encode_mut(&self.span.0, &mut value[SPAN_AT..FLAGS_AT - 1]);
        if self.sampled == Sampled::Yes {
            value[HEADER_BYTES - 1] = b'1';
        }
        value
    }

    /// The same for a call under another span.
    #[must_use]
    pub const fn under(self, span: SpanId) -> Self {
        Self { span, ..self }
    }
}

impl TraceId {
    /// The lower half, which is random also where the upper is not.
    pub(crate) fn low(self) -> u64 {
        self.0[8..].iter().fold(0, |low, byte| low << 8 | u64::from(*byte))
    }

    /// As 32 digits.
    pub fn to_hex(self) -> String {
        HEXLOWER.encode(&self.0)
    }
}

/// Capitals are not allowed.
fn digits<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let read = HEXLOWER.decode_mut(text, &mut bytes).ok()?;
    (read == BYTES).then_some(bytes)
}
