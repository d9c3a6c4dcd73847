//! Wait queue: priorities, fair queueing between tenants, aging and load shedding.
//!
//! Each model has a queue of its own, so that a model without room holds up no other (no
//! head-of-line blocking). Within a queue the greater priority goes first; at equal priority the
//! tenant that was served the fewest tokens since all of them began to wait (start-time fair
//! queueing, `fair_queue.rs`); and within a tenant the first that came (FIFO). At a worker, requests may go
//! first whose prompts are there already (longest prefix match, bounded by a deficit, `worker_queue.rs`). A request that has waited
//! for half of its maximum wait gets one call in [`AGING_EVERY`] ahead of greater priorities
//! (aging).
//!
//! The queue *calls* a waiter: the shell tries to place it, and starts it or puts it back. One
//! waiter of a queue is called at a time, for the room of one worker; a waiter that is put back
//! waits for the worker where it is cheapest (`model_queue.rs`, `worker_queue.rs`).
//!
//! Invariant: every ticket is returned by exactly one of `admitted`, `leave` and `expire`, and the
//! counts equal the requests that wait.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros};

use super::model_queue::{Line, View};
use super::worker_queue::{Ahead, Hold};
use super::{Awaits, Priority, QueueSettings, Tenant, retry_after};
use crate::fleet::WorkerId;
use crate::prefix::PrefixKey;

/// Aging: one call in this many goes to a lower priority that has waited for half of its maximum.
pub const AGING_EVERY: u32 = 8;

/// Maximum empty queues that are remembered, for their service rates.
const LINES_MAX: usize = 1_024;

/// Share of the queue that each priority may fill, in thousandths: low priorities leave room for
/// higher ones.
const SHARE_PERMILLE: [u64; 3] = [500, 875, 1_000];

/// Lower bound of a wait that is expected to take `wait`: the service rate of a queue is known
/// within a factor of two.
const fn sure(wait: Micros) -> Micros {
    Micros::new(wait.get() / 2)
}

/// A request that is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// How much it matters.
    pub priority: Priority,
    /// Whose it is.
    pub tenant: Tenant,
    /// The model it names, as a number.
    pub model: u64,
    /// Tokens of its prompt and of its expected answer.
    pub tokens: u64,
    /// Names the first half of its prompt, where that can be told from others'.
    pub first_half: Option<PrefixKey>,
    /// What it waits for at its worker; any worker's room will do where it is no prefix.
    pub awaits: Awaits,
    /// Until when it should have been started.
    pub deadline: Instant,
    /// Until when it must have been: it waits beyond its deadline only while its line moves fast enough.
    pub limit: Instant,
}

/// Whether requests in flight on a worker hold the part of a prompt that a key names.
pub type IsPinned<'a> = &'a dyn Fn(WorkerId, PrefixKey) -> bool;

/// A place in the queue; the number grows with every one given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Why a request may not even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As much waits as may, of its priority and greater ones.
    QueueFull {
        /// When to come back: 1 to 30 s.
        retry_after: Micros,
    },
    /// As much of the same tenant waits as may.
    TenantFull {
        /// When to come back: 1 to 30 s.
        retry_after: Micros,
    },
    /// As much is held for workers that are not up as may.
    HeldFull {
        /// When to come back: 1 to 30 s.
        retry_after: Micros,
    },
    /// It would not be started by its limit.
    TooLate {
        /// How long it would wait, judging by how fast its line has moved.
        wait: Micros,
        /// When to come back: 1 to 30 s.
        retry_after: Micros,
    },
}

impl Refusal {
    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::TenantFull { .. } => "tenant_full",
            Self::HeldFull { .. } => "held_full",
            Self::TooLate { .. } => "too_late",
        }
    }

    /// When to come back: 1 to 30 s.
    pub const fn retry_after(self) -> Micros {
        match self {
            Self::QueueFull { retry_after }
            | Self::TenantFull { retry_after }
            | Self::HeldFull { retry_after }
            | Self::TooLate { retry_after, .. } => retry_after,
        }
    }
}

/// One who waits.
#[derive(Clone, Copy, Debug)]
struct Entry {
    waiter: Waiter,
    entered: Instant,
    /// The worker that it waits for; nobody where it is held until one is up.
    at: WorkerId,
    standing: Standing,
    /// Until when it waits: its deadline, or its limit once it is kept.
    until: Instant,
    /// Where it stands in the line of its tenant.
    place: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waiting,
    Called,
}

/// Requests that wait for room.
#[derive(Debug)]
pub struct Queue {
    settings: QueueSettings,
    entries: BTreeMap<Ticket, Entry>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    lines: BTreeMap<u64, Line>,
    tenants: BTreeMap<Tenant, usize>,
    waiting: [usize; 3],
    tokens: u64,
    /// Those that are held until a worker is up.
    held: usize,
    next: u64,
    /// The model that was called last.
    turn: u64,
}

impl Queue {
    /// A queue in which nobody waits.
    pub fn new(settings: QueueSettings) -> Self {
        Self {
            settings,
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            lines: BTreeMap::new(),
            tenants: BTreeMap::new(),
            waiting: [0; 3],
            tokens: 0,
            held: 0,
            next: 0,
            turn: 0,
        }
    }

    /// Other bounds from now on; who waits already, stays.
    pub const fn set(&mut self, settings: QueueSettings) {
        self.settings = settings;
    }

    /// Lets a request wait for room at a worker.
    ///
    /// # Errors
    /// Why it may not, and when to come back; nothing has changed then.
    pub fn enter(&mut self, waiter: Waiter, at: WorkerId, now: Instant) -> Result<Ticket, Refusal> {
        self.check(waiter, now)?;
        if at == WorkerId::NOBODY && self.settings.held <= self.held {
            return Err(Refusal::HeldFull { retry_after: retry_after(Micros::ZERO) });
        }
        if !self.lines.contains_key(&waiter.model) {
            self.make_room_for_a_line();
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let line = self.lines.entry(waiter.model).or_default();
        let place = line.enter(ticket, waiter, at, now);
        let (standing, until) = (Standing::Waiting, waiter.deadline);
        let entry = Entry { waiter, entered: now, at, standing, until, place };
        self.entries.insert(ticket, entry);
        self.deadlines.insert((waiter.deadline, ticket));
        self.waiting[waiter.priority.index()] += 1;
        self.held += usize::from(at == WorkerId::NOBODY);
        self.tokens = self.tokens.saturating_add(waiter.tokens);
        *self.tenants.entry(waiter.tenant).or_default() += 1;
        Ok(ticket)
    }

    /// Whose turn it is, if a request waits; one goes before it whose prompt is in use where room came free, as
    /// `is_pinned` says. Try to place it and say what came of it by
    /// [`admitted`](Self::admitted), [`put_back`](Self::put_back) or [`leave`](Self::leave); then
    /// call again.
    pub fn call(&mut self, is_pinned: IsPinned<'_>, now: Instant) -> Option<Ticket> {
        let Self { lines, entries, .. } = self;
        let is_aged = |ticket: Ticket| is_aged(entries, ticket, now);
        let view = View { is_aged: &is_aged, is_pinned };
        let mut found = None;
        // Around, beginning behind the model that was called last.
        for model in [self.turn.saturating_add(1)..=u64::MAX, 0..=self.turn] {
            let mut lines = lines.range_mut(model);
            found = lines.find_map(|(&model, line)| Some((model, line.next(&view)?)));
            if found.is_some() {
                break;
            }
        }
        let (model, (head, room)) = found?;
        let ticket = head.ticket;
        let entry = self.entries.get_mut(&ticket).expect("who stands in a line has an entry");
        entry.standing = Standing::Called;
        let line = self.lines.get_mut(&model).expect("the line was just found");
        line.call(head, entry.waiter, entry.at, room);
        self.turn = model;
        Some(ticket)
    }

    /// The one that was called has been started; returns whether it went before another one's turn, because its prompt
    /// was in use. Nothing happens if it has left meanwhile.
    pub fn admitted(&mut self, ticket: Ticket, now: Instant) -> bool {
        let Some(entry) = self.remove(ticket) else { return false };
        let line = self.lines.get_mut(&entry.waiter.model);
        line.is_some_and(|line| line.admitted(ticket, entry.waiter, entry.at, now))
    }

    /// There was no room after all for the one that was called: it waits at `at` from now on, for what it is.
    pub fn put_back(&mut self, ticket: Ticket, at: WorkerId, awaits: Awaits, hold: Hold) {
        let Some(entry) = self.entries.get_mut(&ticket) else { return };
        if entry.standing == Standing::Called {
            entry.standing = Standing::Waiting;
            self.held -= usize::from(entry.at == WorkerId::NOBODY);
            self.held += usize::from(at == WorkerId::NOBODY);
            entry.at = at;
            entry.waiter.awaits = awaits;
            if let Some(line) = self.lines.get_mut(&entry.waiter.model) {
                line.put_back(ticket, at, awaits, hold);
            }
        }
    }

    /// Those of a model that are held until a worker is up wait for this one from now on, in the order in which they came.
    pub fn settle(&mut self, model: u64, at: WorkerId) {
        let Self { entries, lines, held, .. } = self;
        let Some(line) = lines.get_mut(&model) else { return };
        for (&ticket, entry) in entries.iter_mut() {
            let is_held = entry.at == WorkerId::NOBODY && entry.waiter.model == model;
            if is_held && entry.standing == Standing::Waiting {
                line.settle(ticket, entry.waiter, at);
                entry.at = at;
                *held -= 1;
            }
        }
    }

    /// Whether a request is held until a worker is up.
    pub fn is_held(&self, ticket: Ticket) -> bool {
        self.entries.get(&ticket).is_some_and(|entry| entry.at == WorkerId::NOBODY)
    }

    /// Those that are held until a worker is up.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// A request does not wait any more, called or not; returns whether it did.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(entry) = self.remove(ticket) else { return false };
        if let Some(line) = self.lines.get_mut(&entry.waiter.model) {
            line.leave(ticket, entry.waiter, entry.at);
        }
        true
    }

    /// Something has ended at a worker, or it said something new: those who wait there are called again.
    pub fn freed(&mut self, worker: WorkerId) {
        if self.is_empty() {
            return;
        }
        for line in self.lines.values_mut() {
            line.freed(worker);
        }
    }

    /// A worker has gone down or leaves: who waits there is to wait elsewhere, and whatever is known of the others may
    /// have changed.
    pub fn deserted(&mut self, worker: WorkerId) {
        for line in self.lines.values_mut() {
            line.freed_all();
            line.deserted(worker);
        }
    }

    /// Something is known better of all workers.
    pub fn freed_all(&mut self) {
        for line in self.lines.values_mut() {
            line.freed_all();
        }
    }

    /// Takes out those whose time is over and who are not [kept](Self::keep); one that has been called may still be
    /// started.
    pub fn expire(&mut self, now: Instant) -> Vec<Ticket> {
        let over = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        let waits = |ticket: &Ticket| self.entries[ticket].standing == Standing::Waiting;
        let mut tickets: Vec<Ticket> = over.map(|(_, ticket)| *ticket).filter(waits).collect();
        tickets.retain(|&ticket| self.keep(ticket, now).is_none());
        for &ticket in &tickets {
            self.leave(ticket);
        }
        tickets
    }

    /// Until when somebody is kept whose time is over: its limit, if the line before it moves fast enough to start it
    /// by then. Who is not kept has to be taken out.
    pub fn keep(&mut self, ticket: Ticket, now: Instant) -> Option<Instant> {
        let entry = self.entries.get_mut(&ticket)?;
        let (waiter, limit) = (entry.waiter, entry.waiter.limit);
        let left = limit.since(now);
        let wait = self.lines.get(&waiter.model)?.rest_of_wait(waiter, entry.place, now)?;
        if left == Micros::ZERO || left < wait {
            return None;
        }
        self.deadlines.remove(&(entry.until, ticket));
        self.deadlines.insert((limit, ticket));
        entry.until = limit;
        Some(limit)
    }

    /// Who waits at `worker` before a request for `model`; `ticket` is its own, if it was called.
    pub(crate) fn ahead(
        &self,
        model: u64,
        worker: WorkerId,
        ticket: Option<Ticket>,
        priority: Priority,
    ) -> Ahead {
        let line = self.lines.get(&model);
        line.map_or_else(Ahead::default, |line| line.ahead(worker, ticket, priority))
    }

    /// Those who wait, of one priority.
    pub const fn waiting(&self, priority: Priority) -> usize {
        self.waiting[priority.index()]
    }

    /// Those who wait for one model.
    pub fn waiting_for(&self, model: u64) -> usize {
        self.lines.get(&model).map_or(0, Line::len)
    }

    /// Models that requests wait for, and how many do.
    pub fn waiting_by_model(&self) -> impl Iterator<Item = (u64, usize)> {
        let lengths = self.lines.iter().map(|(&model, line)| (model, line.len()));
        lengths.filter(|&(_, count)| 0 < count)
    }

    /// Those who wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Tokens of those who wait.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// What a request waits with, and since when; `None` for one that does not wait any more.
    pub fn waiter(&self, ticket: Ticket) -> Option<(Waiter, Instant)> {
        self.entries.get(&ticket).map(|entry| (entry.waiter, entry.entered))
    }

    fn check(&self, waiter: Waiter, now: Instant) -> Result<(), Refusal> {
        let line = self.lines.get(&waiter.model);
        let wait = line.and_then(|line| line.wait(waiter));
        let retry_after = retry_after(wait.unwrap_or_default());
        let share = SHARE_PERMILLE[waiter.priority.index()];
        let share_of = |whole: u64| u128::from(whole) * u128::from(share) / 1_000;
        let requests = u64::try_from(self.settings.requests).unwrap_or(u64::MAX);
        let full = share_of(requests) <= self.entries.len() as u128;
        let tokens = u128::from(self.tokens) + u128::from(waiter.tokens);
        // One that is larger than all that may wait, waits alone.
        let heavy = self.tokens > 0 && share_of(self.settings.tokens) < tokens;
        if full || heavy {
            return Err(Refusal::QueueFull { retry_after });
        }
        let own = self.tenants.get(&waiter.tenant).copied().unwrap_or(0);
        if self.settings.per_tenant <= own {
            return Err(Refusal::TenantFull { retry_after });
        }
        let is_seen = |wait| line.is_some_and(|line| line.has_seen_enough(wait, now));
        match wait {
            Some(wait) if sure(wait) > waiter.limit.since(now) && is_seen(wait) => {
                Err(Refusal::TooLate { wait, retry_after })
            }
            _ => Ok(()),
        }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let entry = self.entries.remove(&ticket)?;
        let waiter = entry.waiter;
        self.deadlines.remove(&(entry.until, ticket));
        self.waiting[waiter.priority.index()] -= 1;
        self.held -= usize::from(entry.at == WorkerId::NOBODY);
        self.tokens = self.tokens.saturating_sub(waiter.tokens);
        if let Some(own) = self.tenants.get_mut(&waiter.tenant) {
            *own -= 1;
            if *own == 0 {
                self.tenants.remove(&waiter.tenant);
            }
        }
        Some(entry)
    }

    /// Forgets how fast a line moved in which nobody stands.
    fn make_room_for_a_line(&mut self) {
        if self.lines.len() < LINES_MAX {
            return;
        }
        let idle = self.lines.iter().find(|(_, line)| line.is_empty()).map(|(&model, _)| model);
        if let Some(model) = idle {
            self.lines.remove(&model);
        }
    }
}

/// Whether it has waited for half of the time it has.
fn is_aged(entries: &BTreeMap<Ticket, Entry>, ticket: Ticket, now: Instant) -> bool {
    entries.get(&ticket).is_some_and(|entry| {
        let whole = entry.waiter.deadline.since(entry.entered).get();
        whole / 2 <= now.since(entry.entered).get()
    })
}
