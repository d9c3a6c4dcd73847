//! Worker queue: the requests that wait for room at one worker.
//!
//! A request waits for the worker where it is cheapest to compute, which mostly is the one that
//! holds its prefix. When room comes free there, a bounded number of waiting requests is tried in
//! order: a small one may overtake a large one that does not fit (backfilling), until the large one
//! has waited for so long that the worker is reserved for it.
//!
//! One whose prompt is in use at the worker already needs little more than its answer. It goes before those whose
//! turn it is (longest prefix match) until so much has passed them that they come first (a deficit: Cao et al.,
//! arXiv 2501.14312).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::fair_queue::Lane;
use super::queue::{Ticket, Waiter};
use super::{Priority, Tenant};
use crate::prefix::PrefixKey;

/// Those who wait that are tried after one event, at most; then all wait for the next.
pub(super) const LOOKS_MAX: u32 = 4;

/// Tenants that are found to have more than their share after one event, at most: what they try is not in the way of
/// others.
pub(super) const EXCESS_MAX: usize = 4;

/// Those who wait that are looked at for one whose prompt is in use already, at most; and tenants, for one that may be
/// tried at another worker.
const LOOKAHEAD: usize = 16;

/// One may be passed, because of what is in use, by so many times its own tokens.
const PASSED_TIMES: u64 = 4;

/// The next of a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) ticket: Ticket,
    /// Whose turn it was instead.
    pub(super) passes: Option<Ticket>,
    /// Whether it is the first of those who wait for another worker.
    pub(super) is_elsewhere: bool,
}

impl Head {
    pub(super) const fn in_turn(ticket: Ticket) -> Self {
        Self { ticket, passes: None, is_elsewhere: false }
    }
}

/// The place of one who waits in the fair order of all who wait for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// By [`Priority::index`].
    pub(super) place: usize,
    /// Of its tenant.
    tag: u64,
    pub(super) ticket: Ticket,
}

impl Turn {
    /// Whether it comes before another one.
    pub(super) fn is_before(self, other: Self) -> bool {
        let rank = |turn: Self| (turn.tag, turn.ticket);
        other.place < self.place || other.place == self.place && rank(self) < rank(other)
    }
}

/// One who waits, and for whom room is kept that it does not fill yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tried {
    ticket: Ticket,
    waiter: Waiter,
}

/// Those who wait for one worker.
#[derive(Debug, Default)]
pub(super) struct Stand {
    /// By [`Priority::index`], by tenant, first come first.
    lanes: [BTreeMap<Tenant, BTreeMap<Ticket, Waiter>>; 3],
    /// Tokens of those who wait, by priority.
    tokens: [u64; 3],
    waiting: usize,
    /// Those that found no room since something was last freed.
    tried: Vec<Tried>,
    /// Those that found none because others have a greater claim: nobody else is held up by that.
    excessive: Vec<(Priority, Tenant)>,
    /// How many were tried since then.
    looks: u32,
    /// Whether something came free here, and none that waits for another worker was tried since.
    tries_elsewhere: bool,
    /// Whether one that found no room has waited for long enough to have the worker kept for it.
    reserved: Option<Ticket>,
    /// Tokens that passed those whose turn it was, by whom they passed.
    passed: BTreeMap<Ticket, u64>,
    /// Whether its worker has gone down or leaves: all who wait here are tried, each once.
    is_deserted: bool,
}

impl Stand {
    pub(super) const fn len(&self) -> usize {
        self.waiting
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(super) fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        let place = waiter.priority.index();
        if self.lanes[place].entry(waiter.tenant).or_default().insert(ticket, waiter).is_none() {
            self.tokens[place] = self.tokens[place].saturating_add(waiter.tokens);
            self.waiting += 1;
        }
    }

    pub(super) fn remove(&mut self, ticket: Ticket, waiter: Waiter) {
        let place = waiter.priority.index();
        let Some(flow) = self.lanes[place].get_mut(&waiter.tenant) else { return };
        if flow.remove(&ticket).is_some() {
            self.tokens[place] = self.tokens[place].saturating_sub(waiter.tokens);
            self.waiting -= 1;
        }
        if flow.is_empty() {
            self.lanes[place].remove(&waiter.tenant);
        }
        self.tried.retain(|tried| tried.ticket != ticket);
        self.passed.remove(&ticket);
        if self.reserved == Some(ticket) {
            self.reserved = None;
        }
    }

    /// The one that is called is not here while it is being placed.
    pub(super) fn take(&mut self, ticket: Ticket, waiter: Waiter) {
        let (reserved, passed) = (self.reserved, self.passed.remove(&ticket));
        self.remove(ticket, waiter);
        self.reserved = reserved;
        self.passed.extend(passed.map(|tokens| (ticket, tokens)));
    }

    /// The next of every priority that may be tried, the least first.
    pub(super) fn heads(
        &self,
        shares: &[Lane; 3],
        is_pinned: &dyn Fn(PrefixKey) -> bool,
    ) -> impl Iterator<Item = Head> {
        let is_kept = self.reserved.is_some_and(|one| self.has_tried(one));
        let is_over = !self.is_deserted && (self.has_looked_enough() || is_kept);
        // Who matters less does not take the room that a greater one waits for.
        let least = self.tried.iter().map(|tried| tried.waiter.priority.index()).max().unwrap_or(0);
        let places = if is_over { 3..3 } else { least..3 };
        places.filter_map(move |place| self.head(place, &shares[place], is_pinned))
    }

    /// The next of one priority: the first of the tenant whose turn it is, or one that passes it.
    fn head(
        &self,
        place: usize,
        share: &Lane,
        is_pinned: &dyn Fn(PrefixKey) -> bool,
    ) -> Option<Head> {
        let held = |tenant| self.excessive.contains(&(Priority::ALL[place], tenant));
        let open = self.lanes[place].iter().filter(|(tenant, _)| !held(**tenant));
        let untried = open.map(|(&tenant, flow)| {
            let flow = flow.iter().filter(|(ticket, _)| !self.has_tried(**ticket));
            flow.map(move |(&ticket, waiter)| (share.tag(tenant), ticket, waiter))
        });
        let order = |&(tag, ticket, _): &(u64, Ticket, &Waiter)| (tag, ticket);
        let first = untried.clone().filter_map(|mut flow| flow.next()).min_by_key(order);
        let (_, turn, waiter) = first?;
        let is_there = |waiter: &Waiter| waiter.first_half.is_some_and(is_pinned);
        if is_there(waiter) {
            return Some(Head::in_turn(turn));
        }
        let passed = self.passed.get(&turn).copied().unwrap_or(0);
        let left = waiter.tokens.saturating_mul(PASSED_TIMES).saturating_sub(passed);
        let may_pass = |waiter: &Waiter| waiter.tokens <= left && is_there(waiter);
        let others = untried.flatten().take(LOOKAHEAD).filter(|(_, _, waiter)| may_pass(waiter));
        let next = others.min_by_key(order).map(|(_, ticket, _)| ticket);
        Some(match next {
            Some(ticket) => Head { passes: Some(turn), ..Head::in_turn(ticket) },
            None => Head::in_turn(turn),
        })
    }

    /// Where one that waits here stands among all who wait for the model.
    pub(super) fn turn_of(&self, ticket: Ticket, shares: &[Lane; 3]) -> Option<Turn> {
        let mut flows = Priority::ALL.iter().flat_map(|priority| {
            let place = priority.index();
            self.lanes[place].iter().map(move |(tenant, flow)| (place, tenant, flow))
        });
        let (place, tenant, _) = flows.find(|(_, _, flow)| flow.contains_key(&ticket))?;
        Some(Turn { place, tag: shares[place].tag(*tenant), ticket })
    }

    /// The first of one priority that waits here, tried or not, among those of so many tenants.
    pub(super) fn first(&self, place: usize, share: &Lane) -> Option<(Turn, Waiter)> {
        let firsts = self.lanes[place].iter().take(LOOKAHEAD).filter_map(|(&tenant, flow)| {
            let (&ticket, &waiter) = flow.first_key_value()?;
            Some((Turn { place, tag: share.tag(tenant), ticket }, waiter))
        });
        firsts.min_by_key(|(turn, _)| (turn.tag, turn.ticket))
    }

    /// Whether one that waits for another worker may be tried here.
    pub(super) const fn may_try_elsewhere(&self) -> bool {
        self.tries_elsewhere && !self.is_deserted
    }

    /// One that waits for another worker is tried here.
    pub(super) const fn tried_elsewhere(&mut self) {
        self.tries_elsewhere = false;
    }

    fn has_tried(&self, ticket: Ticket) -> bool {
        self.tried.iter().any(|tried| tried.ticket == ticket)
    }

    /// The one that came last, of the greatest priority that waits here: it would wait for the longest.
    pub(super) fn last(&self) -> Option<Ticket> {
        let lane = self.lanes.iter().rev().find(|lane| !lane.is_empty())?;
        lane.values().filter_map(|flow| flow.keys().last()).max().copied()
    }

    /// One waits elsewhere, or not any more: the worker is not kept for it, and nobody passes it here.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.reserved.take_if(|reserved| *reserved == ticket);
        self.passed.remove(&ticket);
    }

    /// Whether a request was tried since something was last freed.
    pub(super) const fn has_looked(&self) -> bool {
        0 < self.looks
    }

    /// Whether so many were tried since then that all others wait for what is freed next.
    fn has_looked_enough(&self) -> bool {
        let excessive = self.excessive.len();
        let others = (self.looks as usize).saturating_sub(excessive);
        LOOKS_MAX as usize <= others || EXCESS_MAX <= excessive
    }

    /// One was tried, whatever came of it.
    pub(super) const fn looked(&mut self) {
        self.looks += 1;
    }

    /// One that was called has found no room here.
    pub(super) fn found_none(&mut self, ticket: Ticket, waiter: Waiter, hold: Hold) {
        match hold {
            Hold::Excess => self.excessive.push((waiter.priority, waiter.tenant)),
            Hold::Full => self.tried.push(Tried { ticket, waiter }),
            Hold::Reserved => {
                self.tried.push(Tried { ticket, waiter });
                self.reserved = Some(ticket);
            }
        }
    }

    /// One has been started for the room here, and may have passed another: there may be room for a third.
    pub(super) fn started(&mut self, waiter: Waiter, passes: Option<Ticket>) {
        self.looks = 0;
        self.tries_elsewhere = true;
        // It may have left since the other was called.
        let waits = |ticket| {
            self.lanes.iter().any(|lane| lane.values().any(|flow| flow.contains_key(&ticket)))
        };
        if let Some(passed) = passes.filter(|&ticket| waits(ticket)) {
            let tokens = self.passed.entry(passed).or_default();
            *tokens = tokens.saturating_add(waiter.tokens);
        }
    }

    /// Something came free here.
    pub(super) fn freed(&mut self) {
        self.tried.clear();
        self.excessive.clear();
        self.looks = 0;
        self.tries_elsewhere = true;
        self.is_deserted = false;
    }

    /// Nothing comes free here any more: who waits is to wait elsewhere.
    pub(super) fn deserted(&mut self) {
        self.freed();
        self.is_deserted = true;
    }

    /// What stands before one of that priority that has just come.
    pub(super) fn before(&self, priority: Priority) -> Ahead {
        let tokens = self.tokens[priority.index()..].iter().sum();
        let least = self.tried.iter().map(|tried| tried.waiter.tokens).min();
        Ahead { tokens, passable: least.filter(|_| self.reserved.is_none()) }
    }

    /// What stands before one that is called from here.
    pub(super) fn before_called(&self, priority: Priority) -> Ahead {
        let tried = self.tried.iter().filter(|tried| priority <= tried.waiter.priority);
        let tokens = tried.clone().map(|tried| tried.waiter.tokens).sum();
        let least = tried.map(|tried| tried.waiter.tokens).min();
        Ahead { tokens, passable: least.filter(|_| self.reserved.is_none()) }
    }
}

/// Why one that was called keeps waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// There is no room.
    Full,
    /// Others with a greater claim are there.
    Excess,
    /// There is no room, and it has waited for so long that the worker is kept for it.
    Reserved,
}

/// Who waits at a worker before a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Their tokens.
    pub(crate) tokens: u64,
    /// Tokens of one that found no room and may be passed by one that is much smaller.
    pub(crate) passable: Option<u64>,
}

/// One may pass another that is so many times as large.
const PASS_SHARE: u64 = 8;

impl Ahead {
    /// Whether a request of so many tokens has to wait behind them.
    pub(crate) const fn holds(self, tokens: u64) -> bool {
        match self.passable {
            _ if self.tokens == 0 => false,
            Some(large) => large < tokens.saturating_mul(PASS_SHARE),
            None => true,
        }
    }
}
