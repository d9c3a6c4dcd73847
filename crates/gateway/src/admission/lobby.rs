//! Where requests wait for room, and how each hears that its turn has come.
//!
//! The core's queue says whose turn it is; a bell per ticket wakes who is called. Whoever is called
//! tries to find a worker and says what came of it, and then the next is called.
//!
//! Invariant: a place is given back when it is dropped, so a client that goes away while it waits
//! is out of the queue at once, and if it was just being called, the next is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::admit::{Portion, Priority, Queue, QueueSettings, Refusal, Ticket, Waiter};
use overdraft_telemetry::Clock;
use overdraft_units::{Instant, Micros};
use tokio::sync::Notify;

/// All who wait.
#[derive(Debug)]
pub(crate) struct Lobby {
    inner: Mutex<Inner>,
    /// How many there are, for those who would otherwise take the lock to wake nobody.
    waiting: AtomicUsize,
    /// How often something was freed: whoever found no room knows whether it looked too early.
    freed: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    queue: Queue,
    bells: BTreeMap<Ticket, Arc<Notify>>,
}

impl Inner {
    /// Calls everybody whose turn it is: one of each model at most.
    fn ring(&mut self, now: Instant) {
        while let Some(ticket) = self.queue.call(now) {
            match self.bells.get(&ticket) {
                Some(bell) => bell.notify_one(),
                // Nobody would answer; the next is called.
                None => drop(self.queue.leave(ticket)),
            }
        }
    }
}

impl Lobby {
    pub(crate) fn new(settings: QueueSettings) -> Self {
        let inner = Inner { queue: Queue::new(settings), bells: BTreeMap::new() };
        Self { inner: Mutex::new(inner), waiting: AtomicUsize::new(0), freed: AtomicU64::new(0) }
    }

    /// Other bounds from now on.
    pub(crate) fn set(&self, settings: QueueSettings) {
        self.inner().queue.set(settings);
    }

    /// Something has ended or is known better: those who wait may try again. Whatever it was is on
    /// the books of the core already.
    pub(crate) fn freed(&self, now: Instant) {
        self.freed.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut inner = self.inner();
        inner.queue.freed();
        inner.ring(now);
    }

    /// How often something was freed so far.
    pub(crate) fn count_freed(&self) -> u64 {
        self.freed.load(Ordering::SeqCst)
    }

    /// Whether a request that has just come would pass others that wait.
    pub(crate) fn must_queue(&self, model: u64, priority: Priority) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0 && self.inner().queue.must_queue(model, priority)
    }

    /// Those who wait, of each priority, the least first.
    pub(crate) fn lengths(&self) -> [usize; 3] {
        let inner = self.inner();
        Priority::ALL.map(|priority| inner.queue.waiting(priority))
    }

    /// Those who wait for any of these models, given as numbers.
    pub(crate) fn waiting_for(&self, models: &BTreeSet<u64>) -> usize {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let inner = self.inner();
        models.iter().map(|&model| inner.queue.waiting_for(model)).sum()
    }

    /// Tokens of those who wait.
    pub(crate) fn tokens(&self) -> u64 {
        self.inner().queue.tokens()
    }

    /// Lets a request wait, and calls it at once if it is its turn.
    pub(crate) fn enter(&self, waiter: Waiter, clock: Clock) -> Result<Place<'_>, Refusal> {
        let entered = clock.now();
        let mut inner = self.inner();
        let ticket = inner.queue.enter(waiter, entered)?;
        let bell = Arc::new(Notify::new());
        inner.bells.insert(ticket, Arc::clone(&bell));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        inner.ring(entered);
        drop(inner);
        Ok(Place { lobby: self, clock, ticket, bell, entered })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue, which its owner gives back by dropping it.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    lobby: &'a Lobby,
    clock: Clock,
    ticket: Ticket,
    bell: Arc<Notify>,
    entered: Instant,
}

impl Place<'_> {
    /// Resolves when it is called.
    pub(crate) async fn called(&self) {
        self.bell.notified().await;
    }

    /// How long it has waited.
    pub(crate) fn waited(&self) -> Micros {
        self.clock.now().since(self.entered)
    }

    /// It has a worker.
    pub(crate) fn admitted(self) {
        let now = self.clock.now();
        self.lobby.inner().queue.admitted(self.ticket, now);
        // Dropped, it gives back what is left and calls the next.
    }

    /// It was called and found no room; `seen` is how often something had been freed when it
    /// looked, and `portion` where its tenant stands. It keeps its place.
    pub(crate) fn put_back(&self, seen: u64, portion: Portion) {
        let mut inner = self.lobby.inner();
        inner.queue.put_back(self.ticket, portion);
        if self.lobby.count_freed() != seen {
            // What was freed meanwhile may be just what it lacked.
            inner.queue.freed();
        }
        inner.ring(self.clock.now());
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inner = self.lobby.inner();
        inner.queue.leave(self.ticket);
        inner.bells.remove(&self.ticket);
        self.lobby.waiting.fetch_sub(1, Ordering::SeqCst);
        inner.ring(self.clock.now());
    }
}
