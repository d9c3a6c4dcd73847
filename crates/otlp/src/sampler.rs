//! Head sampling: whether a request's trace is recorded, decided before anything is known of it.
//!
//! `ParentBased(TraceIdRatioBased)` of the OpenTelemetry specification: who calls has decided already; without a
//! caller's decision the trace id decides, so that services with one ratio agree.

use crate::context::{Sampled, TraceId};

/// Permille of everything.
const ALL_PERMILLE: u16 = 1_000;

/// Whether a caller's decision counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parents {
    /// A caller that records has its calls recorded, one that does not has not.
    #[default]
    Honoured,
    /// The ratio alone decides; for clients that are not trusted to decide.
    Ignored,
}

/// A sampling rule.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// Traces whose lower 63 bits are below it are recorded.
    threshold: u64,
    parents: Parents,
}

impl Sampler {
    /// Records so many of a thousand traces that begin here.
    pub fn new(ratio_permille: u16, parents: Parents) -> Self {
        let ratio = u128::from(ratio_permille.min(ALL_PERMILLE));
        let threshold = (ratio << 63) / u128::from(ALL_PERMILLE);
        let threshold = u64::try_from(threshold).expect("a share of 63 bits");
        Self { threshold, parents }
    }

    /// Whether a trace is recorded, given what its caller decided.
    pub fn decide(self, trace: TraceId, parent: Option<Sampled>) -> Sampled {
        if let (Some(decided), Parents::Honoured) = (parent, self.parents) {
            return decided;
        }
        if trace.low() >> 1 < self.threshold { Sampled::Yes } else { Sampled::No }
    }
}
