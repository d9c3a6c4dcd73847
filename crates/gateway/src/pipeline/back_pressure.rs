//! Back-pressure: a request that every worker was too full for waits in the queue, by its priority.
//!
//! The core says after which pause it enters the queue again, and when that is in vain
//! ([`overdraft_core::admit::BackPressure`]); then the client gets the worker's own answer.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::admit;
use overdraft_core::fleet::WorkerId;
use overdraft_units::Micros;
use tokio::time::{Instant, sleep};

use super::context::RequestContext;
use super::request_info::{RequestInfo, Work};
use super::{Pipeline, queue};
use crate::dispatch::Lease;

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
    /// When it was first placed.
    begun: Instant,
    core: admit::BackPressure,
}

impl BackPressure {
    pub(super) fn new(pipeline: &Pipeline, info: &RequestInfo) -> Self {
        let patience = pipeline.settings().admission.first_token.of(info.priority);
        let stands_in = pipeline.routes().has_fallback(&info.model);
        let core = admit::BackPressure::new(Micros::from(patience), stands_in);
        Self { begun: Instant::now(), core }
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
        if info.work == Work::Chore || !queue::waits(pipeline, info) {
            return None;
        }
        let is_busy = pipeline.dispatcher.view().fleet().worker(at).refusals().is_busy();
        let full = admit::Full { asked, is_busy };
        let pause = self.core.pause(full, Micros::from(self.begun.elapsed()))?;
        tokio::select! {
            () = sleep(Duration::from(pause)) => {}
            () = context.exchange.drain.closing() => return None,
        }
        let until = self.begun + Duration::from(self.core.patience());
        queue::return_to(pipeline, context, info, at, until).await
    }
}
