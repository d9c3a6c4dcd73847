//! Where requests wait at the gateway for a worker to have room.
//!
//! Whose turn it is says the core's queue, as it does live; here is only who stands behind a ticket.

use std::collections::BTreeMap;

use overdraft_core::admit::{Portion, Priority, Queue, QueueSettings, Ticket, Waiter};
use overdraft_units::Instant;

use super::agenda::FlightId;

/// What all wait for, as a number.
pub(super) const MODEL: u64 = 0;

/// All who wait.
#[derive(Debug)]
pub(super) struct Door {
    queue: Queue,
    flights: BTreeMap<Ticket, FlightId>,
}

impl Door {
    pub(super) fn new(settings: QueueSettings) -> Self {
        Self { queue: Queue::new(settings), flights: BTreeMap::new() }
    }

    /// Whether a request that has just come would pass others that wait.
    pub(super) fn must_queue(&self, priority: Priority) -> bool {
        self.queue.must_queue(MODEL, priority)
    }

    /// Lets a request wait; false if it may not.
    pub(super) fn enter(&mut self, flight: FlightId, waiter: Waiter, now: Instant) -> bool {
        let Ok(ticket) = self.queue.enter(waiter, now) else { return false };
        self.flights.insert(ticket, flight);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Something has ended, or is known better.
    pub(super) fn freed(&mut self) {
        self.queue.freed();
    }

    /// Whose time is over; they do not wait any more.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<FlightId> {
        let over = self.queue.expire(now);
        over.iter().filter_map(|ticket| self.flights.remove(ticket)).collect()
    }

    /// Whose turn it is.
    pub(super) fn call(&mut self, now: Instant) -> Option<(Ticket, FlightId)> {
        let ticket = self.queue.call(now)?;
        Some((ticket, *self.flights.get(&ticket).expect("whoever waits is a request")))
    }

    /// The one that was called has a worker, or is not to wait any more.
    pub(super) fn admitted(&mut self, ticket: Ticket, now: Instant) {
        self.queue.admitted(ticket, now);
        self.flights.remove(&ticket);
    }

    /// The one that was called found no room.
    pub(super) fn put_back(&mut self, ticket: Ticket, portion: Portion) {
        self.queue.put_back(ticket, portion);
    }
}
