//! Trace of one attempt: what its worker is told, and what becomes of it.

use std::sync::Arc;

use http::HeaderMap;
use overdraft_core::fleet::Ending;
use overdraft_otlp::{SpanId, TraceContext};
use overdraft_units::Tokens;

use super::recording::Recording;
use super::tell;

/// What an attempt that the gateway gave up is called.
const CANCELLED: &str = "cancelled";

/// Whom an attempt asks for what.
#[derive(Clone, Debug)]
pub(crate) struct Callee {
    pub(crate) worker: Arc<str>,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) pool: &'static str,
    pub(crate) model: String,
    pub(crate) path: String,
}

/// Tokens of an answer, as its worker counted them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanTokens {
    pub(crate) prompt: Tokens,
    pub(crate) cached: Option<Tokens>,
    pub(crate) completion: Tokens,
}

/// The trace of one attempt.
#[derive(Clone, Debug, Default)]
pub(crate) enum AttemptTrace {
    /// Tracing is off.
    #[default]
    Off,
    /// Its request is not sampled.
    Passed(TraceContext),
    /// Its request is.
    Recorded(Recorded),
}

/// A recorded attempt.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    recording: Arc<Recording>,
    /// None where the request has more attempts than are recorded.
    number: Option<usize>,
    span: SpanId,
}

impl AttemptTrace {
    pub(super) fn begin(recording: Arc<Recording>, callee: Callee) -> Self {
        let (number, span) = recording.begin(callee);
        Self::Recorded(Recorded { recording, number, span })
    }

    /// Tells the worker; what the client said stays where tracing is off.
    pub(crate) fn tell(&self, head: &mut HeaderMap) {
        match self {
            Self::Off => {}
            Self::Passed(context) => tell(*context, head),
            Self::Recorded(recorded) => tell(recorded.recording.context.under(recorded.span), head),
        }
    }

    /// The worker answered with this status.
    pub(crate) fn answered(&self, status: u16) {
        self.note(|attempt, _| attempt.status = Some(status));
    }

    /// The answer has begun.
    pub(crate) fn first_token(&self) {
        self.note(|attempt, now| attempt.first_token = Some(now));
    }

    /// The attempt is over. Only its first end counts.
    pub(crate) fn ended(&self, ending: Ending, tokens: Option<SpanTokens>) {
        let error = match ending {
            Ending::Answered => None,
            Ending::Declined => Some("declined"),
            Ending::Failed(failure) => Some(failure.name()),
            Ending::Abandoned => Some(CANCELLED),
        };
        self.note(|attempt, now| {
            if attempt.ended.is_none() {
                (attempt.ended, attempt.error, attempt.tokens) = (Some(now), error, tokens);
            }
        });
    }

    fn note(&self, note: impl FnOnce(&mut super::AttemptNote, overdraft_units::Instant)) {
        if let Self::Recorded(Recorded { recording, number: Some(number), .. }) = self {
            recording.attempt(*number, note);
        }
    }
}
