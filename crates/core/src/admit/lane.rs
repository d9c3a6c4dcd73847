//! Who is next of those that wait for one model?
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996) in tokens: each tenant has a *tag*, the tokens
//! it was served since the lane is busy, and the smallest goes next. A tenant that begins to wait
//! starts from where the lane is, so that not having asked earlier is no credit; one that asks for
//! ten times its share waits for itself.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros};

use super::queue::{AGING_EVERY, Ticket, Waiter};
use super::{Portion, Priority, Tenant};
use crate::estimate::Ratio;

/// Tenants whose tag is remembered while they do not wait.
const IDLE_FLOWS_MAX: usize = 256;

/// Tenants with more than their share that are tried between two times that something is freed, at
/// most; then everybody waits for the next.
const EXCESSIVE_TRIED_MAX: usize = 4;

/// Starts that must have been seen before it is said how long a line takes.
const STARTS_MIN: u32 = 8;

/// Those who wait for one model.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By [`Priority::index`].
    lanes: [Lane; 3],
    called: Option<Ticket>,
    /// The greatest priority that found no room since something was last freed.
    blocked: Option<Priority>,
    /// Tenants that found no room since then because they have more than their share: nobody else
    /// is held up by that.
    excessive: Vec<Tenant>,
    /// Starts so far.
    starts: u32,
    /// Tokens started over microseconds, while others waited.
    speed: Ratio,
    /// Since when somebody has been waiting and nobody was started.
    since: Option<Instant>,
}

/// Those of one priority.
#[derive(Debug, Default)]
struct Lane {
    flows: BTreeMap<Tenant, Flow>,
    /// The tag of whoever was started last.
    clock: u64,
    waiting: usize,
    /// Tokens of those who wait.
    tokens: u64,
}

/// Those of one tenant, first come first.
#[derive(Debug, Default)]
struct Flow {
    tag: u64,
    waiting: BTreeSet<Ticket>,
    tokens: u64,
}

impl Line {
    pub(super) fn enter(&mut self, ticket: Ticket, waiter: Waiter, now: Instant) {
        self.since.get_or_insert(now);
        self.lanes[waiter.priority.index()].insert(ticket, waiter);
    }

    /// Who is called next, unless somebody is being placed already.
    pub(super) fn next(&self, is_aged: &dyn Fn(Ticket) -> bool) -> Option<Ticket> {
        if self.called.is_some() {
            return None;
        }
        let first = self.blocked.map_or(0, |blocked| blocked.index() + 1);
        let open = self.lanes.get(first..)?;
        let heads = || open.iter().filter_map(|lane| lane.head(&self.excessive));
        if self.starts % AGING_EVERY == AGING_EVERY - 1
            && let Some(aged) = heads().find(|&head| is_aged(head))
        {
            return Some(aged);
        }
        heads().next_back()
    }

    pub(super) fn call(&mut self, ticket: Ticket, waiter: Waiter) {
        self.lanes[waiter.priority.index()].remove(ticket, waiter);
        self.called = Some(ticket);
    }

    pub(super) fn put_back(&mut self, ticket: Ticket, waiter: Waiter, portion: Portion) {
        self.called = None;
        if portion == Portion::Beyond && self.excessive.len() < EXCESSIVE_TRIED_MAX {
            self.excessive.push(waiter.tenant);
        } else {
            self.blocked = self.blocked.max(Some(waiter.priority));
        }
        self.lanes[waiter.priority.index()].insert(ticket, waiter);
    }

    pub(super) fn admitted(&mut self, ticket: Ticket, waiter: Waiter, now: Instant) {
        self.take_out(ticket, waiter);
        let lane = &mut self.lanes[waiter.priority.index()];
        lane.served(waiter);
        self.starts = self.starts.wrapping_add(1);
        if let Some(since) = self.since {
            self.speed.note(waiter.tokens, now.since(since).get());
        }
        self.since = (!self.is_empty()).then_some(now);
        self.rest();
    }

    pub(super) fn leave(&mut self, ticket: Ticket, waiter: Waiter) {
        self.take_out(ticket, waiter);
        if self.is_empty() {
            self.since = None;
        }
        self.rest();
    }

    pub(super) fn freed(&mut self) {
        self.blocked = None;
        self.excessive.clear();
    }

    /// Whether anybody of that priority or a greater one waits.
    pub(super) fn has_from(&self, priority: Priority) -> bool {
        // Whoever is being placed may matter less, and will soon be known.
        self.lanes[priority.index()..].iter().any(|lane| lane.waiting > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.called.is_none() && self.lanes.iter().all(|lane| lane.waiting == 0)
    }

    /// Those who wait, whoever is being placed included.
    pub(super) fn len(&self) -> usize {
        let waiting = self.lanes.iter().map(|lane| lane.waiting).sum::<usize>();
        waiting + usize::from(self.called.is_some())
    }

    /// How long `waiter` would wait here; `None` while nobody can say.
    pub(super) fn wait(&self, waiter: Waiter) -> Option<Micros> {
        let (tokens, micros) = self.speed.parts();
        if self.starts < STARTS_MIN || tokens == 0 {
            return None;
        }
        let place = waiter.priority.index();
        let greater: u64 = self.lanes[place + 1..].iter().map(|lane| lane.tokens).sum();
        let before = greater.saturating_add(self.lanes[place].before(waiter));
        let wait = u128::from(before) * u128::from(micros) / u128::from(tokens);
        Some(Micros::new(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    fn take_out(&mut self, ticket: Ticket, waiter: Waiter) {
        if self.called == Some(ticket) {
            self.called = None;
        } else {
            self.lanes[waiter.priority.index()].remove(ticket, waiter);
        }
    }

    /// When nobody waits any more, all are equal again.
    fn rest(&mut self) {
        let called = self.called.is_some();
        for lane in &mut self.lanes {
            lane.rest(called);
        }
        if self.is_empty() {
            self.freed();
        }
    }
}

impl Lane {
    fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        let flow = self.flows.entry(waiter.tenant).or_default();
        if flow.waiting.is_empty() {
            flow.tag = flow.tag.max(self.clock);
        }
        if flow.waiting.insert(ticket) {
            flow.tokens = flow.tokens.saturating_add(waiter.tokens);
            self.tokens = self.tokens.saturating_add(waiter.tokens);
            self.waiting += 1;
        }
    }

    fn remove(&mut self, ticket: Ticket, waiter: Waiter) {
        let Some(flow) = self.flows.get_mut(&waiter.tenant) else { return };
        if flow.waiting.remove(&ticket) {
            flow.tokens = flow.tokens.saturating_sub(waiter.tokens);
            self.tokens = self.tokens.saturating_sub(waiter.tokens);
            self.waiting -= 1;
        }
    }

    /// The first of the tenant that was served the least, without the `excessive`; of equals, who
    /// came first.
    fn head(&self, excessive: &[Tenant]) -> Option<Ticket> {
        let flows = self.flows.iter().filter(|(tenant, _)| !excessive.contains(tenant));
        let heads = flows.filter_map(|(_, flow)| Some((flow.tag, *flow.waiting.first()?)));
        heads.min().map(|(_, ticket)| ticket)
    }

    fn served(&mut self, waiter: Waiter) {
        let clock = self.clock;
        let flow = self
            .flows
            .entry(waiter.tenant)
            .or_insert_with(|| Flow { tag: clock, ..Flow::default() });
        self.clock = clock.max(flow.tag);
        // A request without tokens costs something too, or it would be served for ever.
        flow.tag = flow.tag.saturating_add(waiter.tokens.max(1));
    }

    /// Tokens that are served before `waiter` is, if all tenants that wait take turns.
    fn before(&self, waiter: Waiter) -> u64 {
        let own = self.flows.get(&waiter.tenant).map_or(0, |flow| flow.tokens);
        let others = self.flows.iter().filter(|(tenant, _)| **tenant != waiter.tenant);
        let turns = own.saturating_add(waiter.tokens);
        let others: u64 = others.map(|(_, flow)| flow.tokens.min(turns)).sum();
        own.saturating_add(others)
    }

    /// Forgets tenants that do not wait and have no more behind them than the lane has.
    fn rest(&mut self, called: bool) {
        if self.waiting == 0 && !called {
            self.flows.clear();
            self.clock = 0;
        } else if self.waiting + IDLE_FLOWS_MAX < self.flows.len() {
            let clock = self.clock;
            self.flows.retain(|_, flow| !flow.waiting.is_empty() || clock < flow.tag);
            let most = self.waiting + IDLE_FLOWS_MAX;
            while most < self.flows.len() {
                let idle = self.flows.iter().filter(|(_, flow)| flow.waiting.is_empty());
                let least = idle.min_by_key(|(_, flow)| flow.tag).map(|(tenant, _)| *tenant);
                let Some(tenant) = least else { return };
                self.flows.remove(&tenant);
            }
        }
    }
}
