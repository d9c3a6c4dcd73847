//! What do all requests of one gateway share?
//!
//! The fleet behind a lock that is held for microseconds and never across an await, the upstreams
//! that run parallel to it, and the count of what is in flight. Every claim on any of these is a
//! value that gives itself back when dropped, so a client that leaves at any moment leaks nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use overdraft_core::fleet::{Attempt, Change, Ending, Fleet, Probe, Turn, WorkerId};
use overdraft_core::route::{self, Ask, Choice, Tried, Verdict};
use overdraft_telemetry::Clock;
use overdraft_telemetry::metrics::GatewayMetrics;

use crate::catalogue::Catalogue;
use crate::intake::Intake;
use crate::settings::{GatewayError, GatewaySettings, Pool};
use crate::upstream::Upstream;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: GatewaySettings,
    pub(crate) clock: Clock,
    pub(crate) catalogue: Catalogue,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) intake: Intake,
    fleet: Mutex<Fleet>,
    upstreams: Vec<(WorkerId, Arc<Upstream>)>,
    requests: AtomicUsize,
    streams: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(settings: GatewaySettings, clock: Clock) -> Result<Self, GatewayError> {
        let addresses = settings.check()?;
        let mut fleet = Fleet::new();
        let mut upstreams = Vec::with_capacity(addresses.len());
        for (worker, address) in settings.workers.iter().zip(addresses) {
            let id = fleet.join().expect("the number of workers was checked");
            let name = HeaderValue::from_str(&worker.name).expect("names were checked");
            upstreams.push((id, Arc::new(Upstream::new(name, address, &settings))));
        }
        Ok(Self {
            catalogue: Catalogue::new(upstreams.len()),
            metrics: GatewayMetrics::new(),
            intake: Intake::default(),
            settings,
            clock,
            fleet: Mutex::new(fleet),
            upstreams,
            requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        })
    }

    /// The state of the core; let go of it before the next await.
    pub(crate) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        // A panic while it is held is a defect of the core, whose books may then be off by one
        // request; refusing all others would be worse.
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn upstream(&self, worker: WorkerId) -> &Arc<Upstream> {
        &self.upstreams[worker.index()].1
    }

    pub(crate) fn upstreams(&self) -> &[(WorkerId, Arc<Upstream>)] {
        &self.upstreams
    }

    /// What a worker is for.
    pub(crate) fn pool(&self, worker: WorkerId) -> Pool {
        self.settings.workers[worker.index()].pool
    }

    /// Asks the core for a worker and books the attempt, in one step.
    pub(crate) fn choose(
        self: &Arc<Self>,
        ask: Ask<'_>,
        tried: &Tried,
        turn: Turn,
    ) -> Result<Lease, Choice> {
        let mut fleet = self.fleet();
        match route::least_load(&fleet, ask, tried) {
            Choice::Send(worker) => {
                let attempt = fleet.start(worker, ask.tokens, turn);
                Ok(Lease { shared: Arc::clone(self), attempt: Some(attempt) })
            }
            refused => Err(refused),
        }
    }

    /// Asks the core whether a failed attempt is made again.
    pub(crate) fn retry(&self, tried: &Tried) -> Verdict {
        route::retry(&self.fleet(), self.settings.retry, tried)
    }

    /// Reports what a probe saw.
    pub(crate) fn probed(&self, worker: WorkerId, probe: Probe<'_>) {
        let change = self.fleet().probed(worker, probe, self.clock.now());
        self.tell(change);
    }

    /// Takes a place among the requests in flight.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Visit> {
        take(&self.requests, self.settings.limits.requests)
            .then(|| Visit { shared: Arc::clone(self), streaming: false })
    }

    fn tell(&self, change: Option<Change>) {
        let Some(change) = change else { return };
        match change {
            Change::CameUp(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker came up");
            }
            Change::ModelsChanged(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker changed its models");
            }
            Change::WentDown(worker, cause) => {
                let name = self.upstream(worker).name();
                tracing::warn!(worker = name, ?cause, "worker went down");
                self.upstream(worker).sweep();
            }
        }
    }
}

/// Counts one more unless that would be too many.
fn take(count: &AtomicUsize, max: usize) -> bool {
    let one_more = |taken| (taken < max).then_some(taken + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

/// A request's place among those in flight.
#[derive(Debug)]
pub(crate) struct Visit {
    shared: Arc<Shared>,
    streaming: bool,
}

impl Visit {
    /// Takes a place among the streams as well; false when there is none.
    pub(crate) fn stream(&mut self) -> bool {
        self.streaming = take(&self.shared.streams, self.shared.settings.limits.streams);
        self.streaming
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.shared.requests.fetch_sub(1, Ordering::Relaxed);
        if self.streaming {
            self.shared.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An attempt in flight. Dropped without a word, it ends as abandoned.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    attempt: Option<Attempt>,
}

impl Lease {
    /// Where the attempt runs.
    pub(crate) fn worker(&self) -> WorkerId {
        self.attempt.as_ref().expect("only `end` and `drop` take it").worker()
    }

    /// Reports how the attempt ended.
    pub(crate) fn end(mut self, ending: Ending) {
        self.settle(ending);
    }

    fn settle(&mut self, ending: Ending) {
        if let Some(attempt) = self.attempt.take() {
            let change = self.shared.fleet().end(attempt, ending, self.shared.clock.now());
            self.shared.tell(change);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.settle(Ending::Abandoned);
    }
}
