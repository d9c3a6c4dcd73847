//! Event queue: events by time, and those of one time in the order of entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use overdraft_core::fleet::{Scraped, Share, WorkerId};
use overdraft_core::hedge::Watch;
use overdraft_scheduler::batch::CacheChange;
use overdraft_units::Instant;

/// Which request under way.
pub(super) type FlightId = u32;

/// Which session under way.
pub(super) type VisitId = u32;

/// Which request's way through the cascade.
pub(super) type CourseId = u32;

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A session asks its next turn.
    Due(VisitId),
    /// A request has come to its worker.
    Delivered(FlightId),
    /// It takes part in what is planned from here on.
    Joined(FlightId),
    /// A worker has computed its step.
    Stepped(usize),
    /// The gateway sees an answer's first token.
    FirstToken(FlightId),
    /// A first token that is watched so is late, and it is looked at for this time.
    Late(FlightId, Box<Watch>, u32),
    /// The gateway has seen so many tokens of an answer.
    Progressed(FlightId, u32),
    /// The gateway sees an answer's end.
    Ended(FlightId),
    /// The gateway sees that the draft of a request with such a number of its own has said so many tokens.
    Drafted(FlightId, u64, u32),
    /// The draft of a request with such a number of its own may take no longer.
    Limit(CourseId, u64),
    /// The pause of a request is over that this worker was too full for.
    Returned(FlightId, WorkerId),
    /// Time is up for a request that waits at the gateway.
    Expired,
    /// A worker's process is gone.
    Gone(usize),
    /// A worker that had crashed is there again.
    Restarted(usize),
    /// This gateway asks the workers for their load, and time passes there.
    Scrape(usize),
    /// This gateway takes in what a worker said of its load.
    Scraped(usize, usize, Box<Scraped>),
    /// Gateways tell each other what they have in flight, by worker.
    Told,
    /// They hear it.
    Heard(Box<[Vec<Share>]>),
    /// What a worker says of its cache is taken in.
    CacheChanged(usize, Box<[CacheChange]>),
}

/// Events that have yet to happen.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64, Slot)>>,
    entered: u64,
}

/// Compares as nothing: time and number have decided.
#[derive(Debug)]
struct Slot(Event);

impl PartialEq for Slot {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Slot {}

impl PartialOrd for Slot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slot {
    fn cmp(&self, _other: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Agenda {
    pub(super) fn enter(&mut self, at: Instant, event: Event) {
        self.entered += 1;
        self.heap.push(Reverse((at, self.entered, Slot(event))));
    }

    /// When the next one happens.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn take(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse((at, _, Slot(event)))| (at, event))
    }
}
