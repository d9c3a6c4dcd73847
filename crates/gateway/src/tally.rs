//! What is counted of a request, however it ends.
//!
//! A tally lives as long as the request: in the handler until there is an answer, then in the answer
//! if that goes on. When it is dropped the request is over, and what the access line knows by then
//! goes into the metrics.

use std::sync::Arc;

use http::StatusCode;
use overdraft_http::Access;
use overdraft_telemetry::metrics::RequestOutcome;
use overdraft_telemetry::{EndCode, Ender, Phase};
use overdraft_units::Instant;

use crate::settings::Pool;
use crate::shared::{Shared, Visit};

/// One request's entry in the metrics, in the making.
#[derive(Debug)]
pub(crate) struct Tally {
    shared: Arc<Shared>,
    access: Access,
    route: &'static str,
    begun: Instant,
    pool: Option<Pool>,
    /// The answer's status; none while there is no answer.
    status: Option<StatusCode>,
    /// Its place among the requests in flight, once it has one.
    visit: Option<Visit>,
}

impl Tally {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        access: &Access,
        route: &'static str,
        begun: Instant,
    ) -> Self {
        shared.metrics.request_begun();
        let (shared, access) = (Arc::clone(shared), access.clone());
        Self { shared, access, route, begun, pool: None, status: None, visit: None }
    }

    /// Takes a place among the requests in flight; false when there is none.
    pub(crate) fn enter(&mut self) -> bool {
        self.visit = self.shared.enter();
        self.visit.is_some()
    }

    /// Takes a place among the streams as well; false when there is none.
    pub(crate) fn stream(&mut self) -> bool {
        self.visit.as_mut().is_some_and(Visit::stream)
    }

    /// A worker of this pool has answered.
    pub(crate) const fn by(&mut self, pool: Pool) {
        self.pool = Some(pool);
    }

    /// This is the answer's status.
    pub(crate) const fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// How the request ended: as was noted, else as follows from how far it came.
    fn end(&self, noted: EndCode) -> EndCode {
        if noted.ender != Ender::Nobody || noted == EndCode::WHOLE {
            return noted;
        }
        match self.status {
            // A stream that has begun and was neither finished nor broken off by us.
            Some(_) if noted.phase == Phase::Data => {
                EndCode { ender: Ender::Client, phase: Phase::Data }
            }
            Some(status) => by_status(status),
            None => EndCode { ender: Ender::Client, phase: noted.phase },
        }
    }
}

/// As the access line has it for an answer that nobody cut short.
fn by_status(status: StatusCode) -> EndCode {
    match status.as_u16() {
        429 | 503 => EndCode { ender: Ender::Capacity, phase: Phase::Queue },
        400..=499 => EndCode { ender: Ender::Policy, phase: Phase::Request },
        500.. => EndCode { ender: Ender::Server, phase: Phase::FirstToken },
        _ => EndCode::WHOLE,
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let total = self.shared.clock.now() - self.begun;
        self.access.note(|record| {
            self.shared.metrics.request_ended(&RequestOutcome {
                route: self.route,
                model: record.model.as_deref().unwrap_or_default(),
                pool: self.pool.map_or("", Pool::name),
                status: self.status.map_or(0, |status| status.as_u16()),
                end: self.end(record.end),
                total,
                first_token: record.first_token,
                prompt: record.prompt,
                completion: record.completion,
            });
        });
    }
}
