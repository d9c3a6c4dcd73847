//! Recording of one sampled request: its attempts and events, within bounds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_otlp::{Attribute, SpanId, TraceContext};
use overdraft_units::Instant;

use super::Tracer;
use super::attempt::{Callee, SpanTokens};

/// Attempts of one request that become spans at most: retries, drafts, scores and resumes.
const ATTEMPTS_MAX: usize = 24;

/// Events of one request at most.
const EVENTS_MAX: usize = 32;

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptNote {
    pub(crate) span: SpanId,
    pub(crate) callee: Callee,
    pub(crate) began: Instant,
    pub(crate) first_token: Option<Instant>,
    pub(crate) status: Option<u16>,
    /// None while it goes on.
    pub(crate) ended: Option<Instant>,
    /// What went wrong.
    pub(crate) error: Option<&'static str>,
    pub(crate) tokens: Option<SpanTokens>,
}

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct EventNote {
    pub(crate) at: Instant,
    pub(crate) name: &'static str,
    pub(crate) attributes: Vec<Attribute>,
}

/// What was noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) attempts: Vec<AttemptNote>,
    pub(crate) events: Vec<EventNote>,
    /// What there was no room for.
    pub(crate) dropped: u32,
}

/// What the caller said of the trace.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Its span, if it is in the trace.
    pub(crate) span: Option<SpanId>,
    /// Its `tracestate`.
    pub(crate) state: Option<Box<str>>,
}

/// A sampled request.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) tracer: Arc<Tracer>,
    /// Its own span, under which its workers are asked.
    pub(crate) context: TraceContext,
    /// The request's id.
    pub(crate) request: Box<str>,
    pub(crate) caller: Caller,
    notes: Mutex<Notes>,
}

impl Recording {
    pub(super) fn new(
        tracer: Arc<Tracer>,
        context: TraceContext,
        request: &str,
        caller: Caller,
    ) -> Self {
        Self { tracer, context, request: request.into(), caller, notes: Mutex::default() }
    }

    pub(super) fn event(&self, name: &'static str, attributes: Vec<Attribute>) {
        let at = self.tracer.clock.now();
        let mut notes = self.notes();
        if notes.events.len() < EVENTS_MAX {
            notes.events.push(EventNote { at, name, attributes });
        } else {
            notes.dropped = notes.dropped.saturating_add(1);
        }
    }

    /// A worker is asked now: the number and the span of the attempt, where there is room for one more.
    pub(super) fn begin(&self, callee: Callee) -> (Option<usize>, SpanId) {
        let (began, span) = (self.tracer.clock.now(), self.tracer.ids.span());
        let mut notes = self.notes();
        let number = notes.attempts.len();
        if ATTEMPTS_MAX <= number {
            notes.dropped = notes.dropped.saturating_add(1);
            return (None, self.context.span);
        }
        notes.attempts.push(AttemptNote {
            span,
            callee,
            began,
            first_token: None,
            status: None,
            ended: None,
            error: None,
            tokens: None,
        });
        (Some(number), span)
    }

    /// Notes something of an attempt, with the time.
    pub(super) fn attempt(&self, number: usize, note: impl FnOnce(&mut AttemptNote, Instant)) {
        let now = self.tracer.clock.now();
        // What a request's end has taken is not there any more.
        if let Some(attempt) = self.notes().attempts.get_mut(number) {
            note(attempt, now);
        }
    }

    /// Takes what was noted, when the request ends.
    pub(crate) fn take(&self) -> Notes {
        std::mem::take(&mut self.notes())
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
