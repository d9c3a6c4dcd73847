//! Exchange: the record of one request besides its bytes (id, client, access line).
//!
//! The handler and the listener fill the same record; the listener writes it when the answer has
//! been handed over or can no longer be. **Invariant:** exactly one line per request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::StatusCode;
use overdraft_telemetry::{AccessRecord, Clock, EndCode, Ender, Phase, RequestId};
use overdraft_units::Instant;

use crate::body_budget::{BodyLease, BodyOwner};
use crate::body_error::BodyError;
use crate::drain::Drain;
use crate::line::Line;

/// What a handler knows about the request it answers.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request's name: the client's own if harmless, else ours.
    pub id: RequestId,
    /// Who asks.
    pub peer: SocketAddr,
    /// When its head was complete.
    pub begun: Instant,
    /// What the access line will say.
    pub access: Access,
    /// How far the listener's end has come.
    pub drain: Drain,
    /// The memory of its body, held for as long as it is answered.
    pub(crate) body: Arc<BodyLease>,
}

impl Exchange {
    /// The same with an access line of its own, for what goes on when the client is gone.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { access: Access::default(), ..self.clone() }
    }

    /// Its body has a part in this owner's share of the memory of all bodies from now on, instead of its address's.
    pub fn belongs_to(&self, owner: BodyOwner) {
        self.body.belongs_to(owner);
    }

    /// Counts so many bytes as its body's, for as long as the exchange or a copy of it is held. What a short request
    /// brings into memory takes as much room as what a long one sends.
    ///
    /// # Errors
    /// [`BodyError::NoRoom`] where other bodies have the memory.
    pub fn hold(&self, bytes: usize) -> Result<(), BodyError> {
        if self.body.grow(bytes) { Ok(()) } else { Err(BodyError::NoRoom) }
    }
}

/// The access line in the making.
///
/// Keep `end.phase` at where the request is; when the client goes away, the line says so with that
/// phase. Set `end.ender` only for what the status does not tell.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<AccessLine>);

#[derive(Debug, Default)]
struct AccessLine {
    record: Mutex<AccessRecord>,
    source: OnceLock<Box<dyn RecordSource>>,
}

/// Facts of a request that its handler keeps, to be written into the record when the line is.
pub trait RecordSource: std::fmt::Debug + Send + Sync {
    /// Fills in what is known by now. Who ended the request is kept where the source does not know.
    fn fill(&self, record: &mut AccessRecord);
}

impl Access {
    /// Has the record filled from `source` when the line is written; the first source counts.
    pub fn written_from(&self, source: impl RecordSource + 'static) {
        let _first = self.0.source.set(Box::new(source));
    }

    /// Fills in what was learnt.
    pub fn note(&self, fill: impl FnOnce(&mut AccessRecord)) {
        fill(&mut self.record());
    }

    fn record(&self) -> MutexGuard<'_, AccessRecord> {
        // A panic while filling leaves a half-filled record, which is still worth a line.
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self) {
        if let Some(source) = self.0.source.get() {
            source.fill(&mut self.record());
        }
    }
}

/// Writes the access line when it goes out of scope, wherever that is.
#[derive(Debug)]
pub(crate) struct AccessGuard {
    access: Access,
    begun: Instant,
    clock: Clock,
    drain: Drain,
    line: Arc<Line>,
    whole: bool,
}

impl AccessGuard {
    pub(crate) fn new(exchange: &Exchange, clock: Clock, line: Arc<Line>) -> Self {
        line.begin_answer();
        Self {
            access: exchange.access.clone(),
            begun: exchange.begun,
            clock,
            drain: exchange.drain.clone(),
            line,
            whole: false,
        }
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Whether the listener's end was signalled.
    pub(crate) fn is_leaving(&self) -> bool {
        self.drain.begun()
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        self.access.note(|record| record.status = status.as_u16());
    }

    /// The answer's last byte was handed over.
    pub(crate) fn whole(&mut self) {
        self.whole = true;
    }

    /// The answer broke off on our side.
    pub(crate) fn broke(&mut self, ender: Ender) {
        self.whole = true;
        self.access.note(|record| {
            if record.end.ender == Ender::Nobody {
                record.end.ender = ender;
            }
        });
    }
}

impl Drop for AccessGuard {
    fn drop(&mut self) {
        self.line.end_answer();
        self.access.fill();
        let mut record = self.access.record();
        record.total = self.clock.now().since(self.begun);
        if record.end.ender == Ender::Nobody {
            record.end = if self.whole {
                by_status(record.status)
            } else if self.line.has_stalled() {
                EndCode { ender: Ender::ClientStalled, phase: record.end.phase }
            } else if self.drain.is_cut() {
                EndCode { ender: Ender::Drain, phase: record.end.phase }
            } else {
                EndCode { ender: Ender::Client, phase: record.end.phase }
            };
        }
        record.write();
    }
}

/// How an answer that is whole ended, where the handler did not say.
fn by_status(status: u16) -> EndCode {
    match status {
        429 | 503 => EndCode { ender: Ender::Capacity, phase: Phase::Queue },
        400..=499 => EndCode { ender: Ender::Policy, phase: Phase::Request },
        500.. => EndCode { ender: Ender::Server, phase: Phase::FirstToken },
        _ => EndCode::WHOLE,
    }
}
