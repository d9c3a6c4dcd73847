//! Back-pressure: a request that every worker was too full for waits in the queue, by its priority.
//!
//! A worker's own 429 or 503 is true of the worker's load at one moment, and the client can do nothing about it that
//! the gateway cannot do better. The request pauses, for as long as the worker asked or for a moment that doubles,
//! enters the queue, and is sent again when it is called. Where another model stands in it waits for a moment alone, and
//! not for a worker that serves nobody. Invariant: it waits no longer than any request of its priority may; then the
//! client gets the worker's own answer.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::WorkerId;
use overdraft_units::Micros;
use tokio::time::{Instant, sleep_until};

use super::context::RequestContext;
use super::request_info::{RequestInfo, Work};
use super::{Pipeline, queue};
use crate::dispatch::Lease;

/// The first pause of a request whose worker does not say when to come back.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A worker that asks for more is no engine that is full for a moment: a quota is spent, and that is the client's to
/// know.
const ASKED_MAX: Duration = Duration::from_secs(5);

/// How long a request waits at most where another model stands in.
const FALLBACK_PATIENCE: Duration = Duration::from_secs(3);

/// How often one request is sent again at most.
const RETURNS_MAX: u32 = 32;

/// What a failed attempt says of back-pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    /// It did not fail for want of room.
    None,
    /// The worker is full, and perhaps asked to be left alone for so long.
    Full(Option<Micros>),
}

/// How long one request has yet to wait for full workers.
#[derive(Debug)]
pub(super) struct BackPressure {
    until: Instant,
    pause: Duration,
    returns: u32,
    /// Whether another model stands in for its own.
    stands_in: bool,
}

impl BackPressure {
    pub(super) fn new(pipeline: &Pipeline, info: &RequestInfo) -> Self {
        let patience = pipeline.settings().admission.first_token.of(info.priority);
        let stands_in = pipeline.routes().has_fallback(&info.model);
        let patience = if stands_in { patience.min(FALLBACK_PATIENCE) } else { patience };
        Self { until: Instant::now() + patience, pause: PAUSE_FIRST, returns: 0, stands_in }
    }

    /// A worker for a request that the one at `at` was too full for, when it is the request's turn; none where waiting
    /// is in vain.
    pub(super) async fn wait(
        &mut self,
        pipeline: &Arc<Pipeline>,
        context: &mut RequestContext<'_>,
        info: &RequestInfo,
        at: WorkerId,
        pressure: Pressure,
    ) -> Option<Lease> {
        let Pressure::Full(asked) = pressure else { return None };
        let asked = asked.map_or(Duration::ZERO, |wait| Duration::from_micros(wait.get()));
        let resume = Instant::now() + asked.max(self.pause);
        let is_dead = || !pipeline.dispatcher.view().fleet().worker(at).refusals().is_busy();
        let is_vain = ASKED_MAX < asked
            || self.until < resume
            || self.returns == RETURNS_MAX
            || self.stands_in && is_dead();
        if is_vain || info.work == Work::Chore || !queue::waits(pipeline, info) {
            return None;
        }
        (self.pause, self.returns) = ((2 * self.pause).min(PAUSE_MAX), self.returns + 1);
        tokio::select! {
            () = sleep_until(resume) => {}
            () = context.exchange.drain.closing() => return None,
        }
        queue::return_to(pipeline, context, info, at, self.until).await
    }
}
