//! Model queue: the requests that wait for one model, and which is called next.
//!
//! Free room at a worker goes to the requests that wait there, by priority and fair shares. One that
//! waits for another worker, and can be computed here as well, goes first if its turn comes earlier.
//! Where none waits here, the request is asked that would wait longest elsewhere. One request is
//! called at a time.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use overdraft_units::{Instant, Micros};

use super::fair_queue::Lane;
use super::queue::{AGING_EVERY, IsPinned, Ticket, Waiter};
use super::worker_queue::{Ahead, Head, Hold, Stand};
use super::{Awaits, Priority};
use crate::estimate::MovingAverage;
use crate::fleet::WorkerId;

/// Starts that must have been seen before it is said how long a line takes.
const STARTS_MIN: u32 = 8;

/// Longest wait that is believed, in times of how long requests have been waiting: a fleet that fills for the first time
/// starts nobody until its first answers have ended.
const EXTRAPOLATED_TIMES: u64 = 16;

/// Other workers whose queues are looked at when room comes free at one, at most.
const ELSEWHERE_MAX: usize = 64;

/// Those who wait for one model.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By [`Priority::index`]: the fair shares, wherever one waits.
    lanes: [Lane; 3],
    stands: BTreeMap<WorkerId, Stand>,
    /// Where something came free and it is not known yet that nobody can use it.
    ready: BTreeSet<WorkerId>,
    called: Option<Called>,
    /// Starts so far.
    starts: u32,
    /// Tokens started over microseconds, while others waited.
    speed: MovingAverage,
    /// Since when requests have been waiting and none was started.
    since: Option<Instant>,
    /// Since when requests have been waiting without a break.
    busy_since: Option<Instant>,
}

/// What is known of those who wait when one of them is called.
pub(super) struct View<'a> {
    /// Whether one has waited for half of the time it has.
    pub(super) is_aged: &'a dyn Fn(Ticket) -> bool,
    pub(super) is_pinned: IsPinned<'a>,
}

/// The one that is being placed.
#[derive(Clone, Copy, Debug)]
struct Called {
    ticket: Ticket,
    waiter: Waiter,
    /// Where it waited.
    from: WorkerId,
    /// Where something came free.
    for_room: WorkerId,
    /// Whose turn it was instead.
    passes: Option<Ticket>,
    /// Whether it was the first where it waited, and something came free at another worker.
    is_elsewhere: bool,
}

impl Called {
    /// Whether only those stand before it at a worker that found no room there.
    fn is_first_at(&self, worker: WorkerId) -> bool {
        worker == self.for_room || self.is_elsewhere && worker == self.from
    }
}

impl Line {
    /// Says where it stands in the line of its tenant.
    pub(super) fn enter(
        &mut self,
        ticket: Ticket,
        waiter: Waiter,
        at: WorkerId,
        now: Instant,
    ) -> u64 {
        self.since.get_or_insert(now);
        self.busy_since.get_or_insert(now);
        let lane = &mut self.lanes[waiter.priority.index()];
        let place = lane.place(waiter.tenant);
        lane.insert(waiter);
        self.stands.entry(at).or_default().insert(ticket, waiter);
        // It may be small enough to pass those that wait there, or matter more.
        self.ready.insert(at);
        place
    }

    /// Which request is called next, and for the room of which worker, unless one is being placed already.
    pub(super) fn next(&mut self, view: &View<'_>) -> Option<(Head, WorkerId)> {
        if self.called.is_some() {
            return None;
        }
        while let Some(&room) = self.ready.first() {
            let stand = self.stands.get(&room).filter(|stand| !stand.is_empty());
            let found = match stand {
                Some(stand) => self.head(stand, room, view).map(|own| {
                    let earlier = self.earlier_elsewhere(stand, own, room, view);
                    earlier.unwrap_or(own)
                }),
                None => self.furthest(room).map(Head::in_turn),
            };
            if let Some(head) = found {
                return Some((head, room));
            }
            self.ready.remove(&room);
        }
        None
    }

    fn head(&self, stand: &Stand, room: WorkerId, view: &View<'_>) -> Option<Head> {
        let is_pinned = |key| (view.is_pinned)(room, key);
        // Once after each event: the aged one may have found no room in what is left to others.
        if self.starts % AGING_EVERY == AGING_EVERY - 1
            && !stand.has_looked()
            && let Some(aged) =
                stand.heads(&self.lanes, &is_pinned).find(|head| (view.is_aged)(head.ticket))
        {
            return Some(aged);
        }
        stand.heads(&self.lanes, &is_pinned).last()
    }

    /// One whose turn comes before that of the first here, and that waits for another worker although it can be computed
    /// here as well: no worker holds its prompt, or it is in use here.
    fn earlier_elsewhere(
        &self,
        stand: &Stand,
        own: Head,
        room: WorkerId,
        view: &View<'_>,
    ) -> Option<Head> {
        if !stand.may_try_elsewhere() || own.passes.is_some() {
            return None;
        }
        let own = stand.turn_of(own.ticket, &self.lanes)?;
        let is_pinned = |key| (view.is_pinned)(room, key);
        let is_free = |waiter: Waiter| {
            waiter.awaits == Awaits::Room || waiter.first_half.is_some_and(is_pinned)
        };
        let after = (Bound::Excluded(room), Bound::Unbounded);
        let around = self.stands.range(after).chain(self.stands.range(..room));
        let others = around.filter(|(at, _)| **at != WorkerId::NOBODY).take(ELSEWHERE_MAX);
        let firsts = others.flat_map(|(_, other)| {
            (own.place..3).filter_map(|place| other.first(place, &self.lanes[place]))
        });
        let earlier = firsts.filter(|&(turn, waiter)| turn.is_before(own) && is_free(waiter));
        let first = earlier
            .map(|(turn, _)| turn)
            .reduce(|one, other| if other.is_before(one) { other } else { one })?;
        Some(Head { is_elsewhere: true, ..Head::in_turn(first.ticket) })
    }

    /// The one that would wait for the longest at another worker, once for each time that something comes
    /// free.
    fn furthest(&self, room: WorkerId) -> Option<Ticket> {
        let looked = self.stands.get(&room).is_some_and(Stand::has_looked);
        // Those that are held until a worker is up go in the order in which they came.
        let others = self.stands.iter().filter(|(at, _)| **at != WorkerId::NOBODY);
        let others = others.map(|(_, stand)| stand);
        let others = others.filter(|stand| !looked && !stand.is_empty());
        others.max_by_key(|stand| stand.len())?.last()
    }

    pub(super) fn call(&mut self, head: Head, waiter: Waiter, from: WorkerId, for_room: WorkerId) {
        let Head { ticket, passes, is_elsewhere } = head;
        self.lanes[waiter.priority.index()].remove(waiter);
        if let Some(stand) = self.stands.get_mut(&from) {
            stand.take(ticket, waiter);
        }
        let stand = self.stands.entry(for_room).or_default();
        if is_elsewhere {
            stand.tried_elsewhere();
        } else {
            stand.looked();
        }
        self.called = Some(Called { ticket, waiter, from, for_room, passes, is_elsewhere });
    }

    /// The one that was called found no room, and waits at `at` from now on.
    pub(super) fn put_back(&mut self, ticket: Ticket, at: WorkerId, awaits: Awaits, hold: Hold) {
        let is_it = |called: &mut Called| called.ticket == ticket;
        let Some(mut called) = self.called.take_if(is_it) else { return };
        called.waiter.awaits = awaits;
        self.lanes[called.waiter.priority.index()].insert(called.waiter);
        if at != called.from
            && let Some(stand) = self.stands.get_mut(&called.from)
        {
            stand.forget(ticket);
        }
        let stand = self.stands.entry(at).or_default();
        stand.insert(ticket, called.waiter);
        if at == called.for_room {
            stand.found_none(ticket, called.waiter, hold);
        }
    }

    /// One that was held until a worker is up waits for `at` from now on.
    pub(super) fn settle(&mut self, ticket: Ticket, waiter: Waiter, at: WorkerId) {
        if let Some(stand) = self.stands.get_mut(&WorkerId::NOBODY) {
            stand.remove(ticket, waiter);
        }
        self.stands.entry(at).or_default().insert(ticket, waiter);
    }

    /// Returns whether it went before another one's turn.
    pub(super) fn admitted(
        &mut self,
        ticket: Ticket,
        waiter: Waiter,
        at: WorkerId,
        now: Instant,
    ) -> bool {
        let called = self.take_out(ticket, waiter, at);
        let passes = called.and_then(|called| called.passes);
        if let Some(stand) = called.and_then(|called| self.stands.get_mut(&called.for_room)) {
            stand.started(waiter, passes);
        }
        self.lanes[waiter.priority.index()].served(waiter);
        self.starts = self.starts.wrapping_add(1);
        if let Some(since) = self.since {
            self.speed.note(waiter.tokens, now.since(since).get());
        }
        self.since = (!self.is_empty()).then_some(now);
        self.busy_since = self.busy_since.filter(|_| self.since.is_some());
        self.rest();
        passes.is_some()
    }

    pub(super) fn leave(&mut self, ticket: Ticket, waiter: Waiter, at: WorkerId) {
        self.take_out(ticket, waiter, at);
        self.lanes[waiter.priority.index()].left(waiter);
        if self.is_empty() {
            self.since = None;
            self.busy_since = None;
        }
        self.rest();
    }

    /// Something came free at a worker.
    pub(super) fn freed(&mut self, worker: WorkerId) {
        if self.is_empty() {
            return;
        }
        if let Some(stand) = self.stands.get_mut(&worker) {
            stand.freed();
        }
        self.ready.insert(worker);
    }

    /// A worker has gone down or leaves: who waits there is to wait elsewhere.
    pub(super) fn deserted(&mut self, worker: WorkerId) {
        if let Some(stand) = self.stands.get_mut(&worker).filter(|stand| !stand.is_empty()) {
            stand.deserted();
            self.ready.insert(worker);
        }
    }

    /// Something is known better of all workers.
    pub(super) fn freed_all(&mut self) {
        for (&worker, stand) in &mut self.stands {
            stand.freed();
            self.ready.insert(worker);
        }
    }

    /// Who waits at `worker` before a request of that priority that has just come or that is called.
    pub(super) fn ahead(&self, worker: WorkerId, ticket: Option<Ticket>, least: Priority) -> Ahead {
        let Some(stand) = self.stands.get(&worker) else { return Ahead::default() };
        match self.called {
            Some(called) if Some(called.ticket) == ticket && called.is_first_at(worker) => {
                stand.before_called(least)
            }
            _ => stand.before(least),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.called.is_none() && self.lanes.iter().all(|lane| lane.len() == 0)
    }

    /// The requests that wait, the one that is being placed included.
    pub(super) fn len(&self) -> usize {
        let waiting = self.lanes.iter().map(Lane::len).sum::<usize>();
        waiting + usize::from(self.called.is_some())
    }

    /// How long `waiter` would wait here; `None` while nobody can say.
    pub(super) fn wait(&self, waiter: Waiter) -> Option<Micros> {
        self.time_for(waiter, self.lanes[waiter.priority.index()].own(waiter.tenant))
    }

    /// Whether requests have been waiting for long enough to believe in such a wait.
    pub(super) fn has_seen_enough(&self, wait: Micros, now: Instant) -> bool {
        let seen = self.busy_since.map_or(0, |since| now.since(since).get());
        wait.get() <= seen.saturating_mul(EXTRAPOLATED_TIMES)
    }

    /// How long one that waits has still to wait, from where it stands in the line of its tenant. While nobody is
    /// started that grows: the next start is taken to be as far away as the last one.
    pub(super) fn rest_of_wait(&self, waiter: Waiter, place: u64, now: Instant) -> Option<Micros> {
        let own = self.lanes[waiter.priority.index()].own_before(waiter.tenant, place);
        let stood = self.since.map_or(Micros::ZERO, |since| now.since(since));
        let wait = self.time_for(waiter, own)?.get();
        Some(Micros::new(wait.saturating_add(stood.get())))
    }

    /// How long it takes until all are started that go before `waiter`, so many tokens of its own tenant's among them.
    fn time_for(&self, waiter: Waiter, own: u64) -> Option<Micros> {
        let (tokens, micros) = self.speed.parts();
        if self.starts < STARTS_MIN || tokens == 0 {
            return None;
        }
        let place = waiter.priority.index();
        let greater: u64 = self.lanes[place + 1..].iter().map(Lane::tokens).sum();
        let before = greater.saturating_add(self.lanes[place].before(waiter, own));
        let wait = u128::from(before) * u128::from(micros) / u128::from(tokens);
        Some(Micros::new(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn take_out(&mut self, ticket: Ticket, waiter: Waiter, at: WorkerId) -> Option<Called> {
        let called = self.called.take_if(|called| called.ticket == ticket);
        if called.is_none() {
            self.lanes[waiter.priority.index()].remove(waiter);
        }
        if let Some(stand) = self.stands.get_mut(&at) {
            stand.forget(ticket);
            stand.remove(ticket, waiter);
        }
        called
    }

    /// When nobody waits any more, all are equal again.
    fn rest(&mut self) {
        let called = self.called.is_some();
        for lane in &mut self.lanes {
            lane.rest(called);
        }
        if self.is_empty() {
            self.stands.clear();
            self.ready.clear();
        }
    }
}
