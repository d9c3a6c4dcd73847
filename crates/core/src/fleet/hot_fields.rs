//! Hot worker fields: the part of a worker that routing reads, in two cache lines.
//!
//! A routing decision reads every worker that serves the model, and a [`Worker`] is a kilobyte of
//! ledgers, windows and forecasts. So the fields that a decision reads are stored apart (hot/cold
//! split) and recomputed when a worker changes instead of at each read.
//!
//! **Invariant:** a glance agrees with its worker. Workers are changed through [`Changing`] alone,
//! which renews the glance when it is dropped; builds with debug assertions compare the two at
//! every read.

use core::ops::{Deref, DerefMut};

use overdraft_units::{BlockSize, Instant, Micros, Tokens};

use super::seen_prefills::SeenPrefills;
use super::traffic::SentLately;
use super::{Fleet, Worker, WorkerId};
use crate::admit::Forecast;
use crate::estimate::Pace;

/// The fields of one worker that nearly every decision reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Glance {
    /// Whether it is up, takes new requests, refuses none, and its breaker is closed. Where not, the
    /// worker itself says why.
    pub(crate) is_open: bool,
    /// Whether answers that come whole are under way: their prompts are worked off unseen.
    has_unseen: bool,
    /// See [`Worker::requests_all`].
    pub(crate) requests: u32,
    /// What was sent there lately.
    pub(crate) sent: SentLately,
    /// See [`Worker::foreign_waiting`].
    pub(crate) foreign_waiting: u32,
    /// See [`Worker::tokens`].
    pub(crate) tokens: u64,
    /// See [`Worker::started_last`].
    pub(crate) started_last: u64,
    /// See [`Worker::kv_capacity`].
    pub(crate) kv_capacity: Option<Tokens>,
    /// Tokens to a page of its cache, as it said itself.
    pub(crate) block_size: Option<BlockSize>,
    /// See [`Worker::kv_booked`].
    pub(crate) kv_booked: u64,
    prefills: SeenPrefills,
    /// See [`Worker::prefill_rate`]: its own pace, where it is proven to have one.
    pace: Option<Pace>,
    /// How long one of its decode steps takes, in microseconds, once any was seen: half the size of [`Micros`].
    step: Option<u32>,
    /// How long one takes without anything in its cache, where it is proven to differ from its fleet's.
    step_bare: Option<Micros>,
}

/// A decision reads the glance of every worker.
const _: () = assert!(size_of::<Glance>() <= 128, "a glance is two cache lines");

impl Glance {
    pub(super) fn of(worker: &Worker) -> Self {
        let health = worker.health();
        Self {
            is_open: health.is_up()
                && !worker.is_draining()
                && worker.breaker().is_closed()
                && worker.refusals().is_clear(),
            has_unseen: worker.unseen.is_any(),
            requests: worker.requests_all(),
            sent: worker.sent,
            foreign_waiting: worker.foreign_waiting(),
            tokens: worker.tokens(),
            started_last: worker.started_last(),
            kv_capacity: worker.kv_capacity(),
            block_size: worker.scraped().and_then(|scraped| scraped.block_size),
            kv_booked: worker.kv_booked(),
            prefills: worker.seen_prefills(),
            pace: worker.prefill_rate().own(),
            step: worker
                .step_time()
                .seen()
                .map(|step| u32::try_from(step.get()).unwrap_or(u32::MAX)),
            step_bare: worker.step_bare.own(),
        }
    }

    /// Tokens of its cache that are not booked; `None` while its capacity is unknown.
    #[inline]
    pub(crate) fn kv_free(&self) -> Option<u64> {
        let capacity = u64::from(self.kv_capacity?.get());
        Some(capacity.saturating_sub(self.kv_booked))
    }

    /// How fast it computes prompts: as its `fleet`, unless it is proven to differ.
    #[inline]
    pub(crate) fn pace_within(&self, fleet: Pace) -> Pace {
        self.pace.unwrap_or(fleet)
    }

    /// How long a decode step takes it: as its `fleet`'s bare ones, until it was seen. With a guess of its own a
    /// worker that nobody has asked yet would look slower than those that were, and would not be asked.
    #[inline]
    pub(crate) fn step_within(&self, fleet: Micros) -> Micros {
        self.step.map_or(fleet, |step| Micros::new(step.into()))
    }

    /// How long a decode step takes it without anything in its cache.
    #[inline]
    pub(crate) fn step_bare_within(&self, fleet: Micros) -> Micros {
        self.step_bare.unwrap_or(fleet)
    }

    /// See [`Booked::prefill_tokens`](super::Booked::prefill_tokens).
    #[inline]
    pub(crate) const fn prefill_tokens(&self) -> u64 {
        self.prefills.tokens
    }

    /// See [`Worker::queued`]; `None` where only the worker can say.
    #[inline]
    pub(crate) fn queued(&self, pace: Pace, now: Instant) -> Option<u64> {
        (!self.has_unseen).then(|| self.prefills.left(pace, now))
    }
}

/// What is true of few workers at most times. Where it is of none, no decision asks it of each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seldom {
    /// When a worker last came up.
    pub(crate) came_up: Instant,
    /// Whether any has ever shared the blocks of its cache.
    pub(crate) shares: bool,
}

/// A worker that is being changed.
pub(super) struct Changing<'a> {
    worker: &'a mut Worker,
    glance: &'a mut Glance,
    seldom: &'a mut Seldom,
    in_flight: &'a mut u64,
}

impl Deref for Changing<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        self.worker
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Worker {
        self.worker
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        *self.in_flight -= u64::from(self.glance.requests);
        *self.glance = Glance::of(self.worker);
        *self.in_flight += u64::from(self.glance.requests);
        self.seldom.came_up = self.seldom.came_up.max(self.worker.came_up);
        self.seldom.shares |= self.worker.blocks().is_shared();
    }
}

impl Fleet {
    /// One worker, to be changed.
    pub(super) fn changing(&mut self, id: WorkerId) -> Changing<'_> {
        let (worker, glance) = (&mut self.workers[id.index()], &mut self.glances[id.index()]);
        let (seldom, in_flight) = (&mut self.seldom, &mut self.traffic.in_flight);
        Changing { worker, glance, seldom, in_flight }
    }

    /// Changes what one worker is forecast to hold, and nothing else.
    pub(super) fn change_forecast(&mut self, id: WorkerId, change: impl FnOnce(&mut Forecast)) {
        let worker = &mut self.workers[id.index()];
        change(&mut worker.forecast);
        self.glances[id.index()].kv_booked = worker.kv_booked();
    }

    /// What is true of few workers at most times, and may be of one of these.
    #[inline]
    pub(crate) const fn seldom(&self) -> Seldom {
        self.seldom
    }

    /// What a decision looks at of one worker.
    #[inline]
    pub(crate) fn glance(&self, id: WorkerId) -> &Glance {
        let glance = &self.glances[id.index()];
        debug_assert_eq!(
            *glance,
            Glance::of(self.worker(id)),
            "a worker changed and its glance not"
        );
        glance
    }
}
