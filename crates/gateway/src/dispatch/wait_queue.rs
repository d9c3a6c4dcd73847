//! Wait queue: requests that wait for room at a worker, and how each is woken when its turn comes.
//!
//! The core's queue, beside its router, decides which request is next; a bell per ticket wakes the
//! request that is called. That request places itself, and then the next is called.
//!
//! Invariant: a dropped place leaves the queue, so a client that disconnects while it waits is
//! removed at once, and if it was just being called, the next is called.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::admit::{Priority, Queue, Refusal, Ticket, Wait};
use overdraft_core::route::{Request, Router};
use overdraft_telemetry::Clock;
use overdraft_units::{Instant, Micros};
use tokio::sync::Notify;

use super::dispatcher::Dispatcher;

/// The bells of all who wait.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    bells: Mutex<BTreeMap<Ticket, Arc<Notify>>>,
    /// How many there are, for those who would otherwise take a lock to wake nobody.
    waiting: AtomicUsize,
    /// Those who wait at other gateways, by model, as they told last.
    elsewhere: Mutex<BTreeMap<u64, u64>>,
}

impl WaitQueue {
    /// Something is known better: calls whose turn it is, one of each model at most.
    pub(crate) fn ring(&self, dispatcher: &Dispatcher) {
        if 0 < self.waiting.load(Ordering::SeqCst) {
            self.call(&mut dispatcher.router(), dispatcher.clock.now());
        }
    }

    fn call(&self, router: &mut Router, now: Instant) {
        let bells = self.bells();
        while let Some(ticket) = router.call(now) {
            match bells.get(&ticket) {
                Some(bell) => bell.notify_one(),
                // Nobody would answer; the next is called.
                None => drop(router.leave_queue(ticket)),
            }
        }
    }

    /// Those who wait, of each priority, the least first, and their tokens.
    pub(crate) fn lengths(queue: &Queue) -> ([usize; 3], u64) {
        (Priority::ALL.map(|priority| queue.waiting(priority)), queue.tokens())
    }

    /// Those who wait here, by model.
    pub(super) fn by_model(queue: &Queue) -> BTreeMap<u64, u64> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        queue.waiting_by_model().map(|(model, waiting)| (model, count(waiting))).collect()
    }

    /// Those who wait here, and those who wait at other gateways.
    pub(super) fn everywhere(&self, here: BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
        let mut all = self.elsewhere().clone();
        for (model, count) in here {
            let known = all.entry(model).or_default();
            *known = known.saturating_add(count);
        }
        all
    }

    /// Notes who waits at other gateways.
    pub(crate) fn note_elsewhere(&self, waiting: BTreeMap<u64, u64>) {
        *self.elsewhere() = waiting;
    }

    fn elsewhere(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request wait for a worker, and calls it at once if it is its turn.
    pub(crate) fn enter<'a>(
        &self,
        dispatcher: &'a Dispatcher,
        request: Request<'_>,
        wait: Wait,
    ) -> Result<QueuePlace<'a>, Refusal> {
        let entered = dispatcher.clock.now();
        let mut router = dispatcher.router();
        let ticket = router.wait(request, wait, entered)?;
        let bell = Arc::new(Notify::new());
        self.bells().insert(ticket, Arc::clone(&bell));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.call(&mut router, entered);
        drop(router);
        Ok(QueuePlace { dispatcher, ticket, bell, entered })
    }

    fn bells(&self) -> MutexGuard<'_, BTreeMap<Ticket, Arc<Notify>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue, which its owner gives back by dropping it.
#[derive(Debug)]
pub(crate) struct QueuePlace<'a> {
    dispatcher: &'a Dispatcher,
    ticket: Ticket,
    bell: Arc<Notify>,
    entered: Instant,
}

impl QueuePlace<'_> {
    /// Its number in the queue.
    pub(crate) const fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Resolves when it is called.
    pub(crate) async fn called(&self) {
        self.bell.notified().await;
    }

    /// For how much longer it is kept whose time is over, if it is.
    pub(crate) fn keep(&self) -> Option<Micros> {
        let now = self.dispatcher.clock.now();
        self.dispatcher.router().keep(self.ticket, now).map(|until| until.since(now))
    }

    /// How long it has waited.
    pub(crate) fn waited(&self) -> Micros {
        let clock: Clock = self.dispatcher.clock;
        clock.now().since(self.entered)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let queue = &self.dispatcher.wait_queue;
        let mut router = self.dispatcher.router();
        router.leave_queue(self.ticket);
        queue.bells().remove(&self.ticket);
        queue.waiting.fetch_sub(1, Ordering::SeqCst);
        queue.call(&mut router, self.dispatcher.clock.now());
    }
}
