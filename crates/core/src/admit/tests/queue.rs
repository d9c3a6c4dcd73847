//! The queue against its twin, a list that is searched from the front, and its promises.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros};
use proptest::prelude::*;

use crate::admit::{
    AGING_EVERY, Portion, Priority, Queue, QueueSettings, RETRY_AFTER_MAX, RETRY_AFTER_MIN,
    Refusal, Tenant, Ticket, Waiter,
};

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Instant {
    Instant::ORIGIN + Micros::new(micros)
}

fn waiter(priority: Priority, tenant: u64, model: u64) -> Waiter {
    let (tenant, deadline) = (Tenant(tenant), at(1_000_000 * SECOND));
    Waiter { priority, tenant, model, tokens: 100, deadline }
}

fn queue() -> Queue {
    Queue::new(QueueSettings { requests: 10_000, tokens: u64::MAX, per_tenant: 10_000 })
}

/// One who waits, in the twin.
#[derive(Clone, Copy, Debug)]
struct Standing {
    ticket: Ticket,
    waiter: Waiter,
    entered: Instant,
    called: bool,
}

/// What the queue is, without any of its tables.
#[derive(Default)]
struct Twin {
    all: Vec<Standing>,
    /// Tokens served by model, priority and tenant.
    tags: BTreeMap<(u64, Priority, Tenant), u64>,
    clocks: BTreeMap<(u64, Priority), u64>,
    blocked: BTreeMap<u64, Priority>,
    excessive: BTreeSet<(u64, Tenant)>,
    starts: BTreeMap<u64, u32>,
    turn: u64,
}

impl Twin {
    fn stands(&mut self, waiter: &Waiter) {
        let lane = (waiter.model, waiter.priority);
        let first = !self.all.iter().any(|one| {
            !one.called
                && (one.waiter.model, one.waiter.priority, one.waiter.tenant)
                    == (lane.0, lane.1, waiter.tenant)
        });
        let clock = self.clocks.get(&lane).copied().unwrap_or(0);
        let tag = self.tags.entry((lane.0, lane.1, waiter.tenant)).or_default();
        if first {
            *tag = (*tag).max(clock);
        }
    }

    fn enter(&mut self, ticket: Ticket, waiter: Waiter, entered: Instant) {
        self.stands(&waiter);
        self.all.push(Standing { ticket, waiter, entered, called: false });
    }

    fn head(&self, model: u64, priority: Priority) -> Option<Standing> {
        let waits = |one: &&Standing| {
            !one.called
                && one.waiter.model == model
                && one.waiter.priority == priority
                && !self.excessive.contains(&(model, one.waiter.tenant))
        };
        let tag = |one: &Standing| self.tags[&(model, priority, one.waiter.tenant)];
        self.all.iter().filter(waits).min_by_key(|one| (tag(one), one.ticket)).copied()
    }

    fn call(&mut self, now: Instant) -> Option<Ticket> {
        let models: BTreeSet<u64> = self.all.iter().map(|one| one.waiter.model).collect();
        let after = models.iter().filter(|&&model| self.turn < model);
        let around = models.iter().filter(|&&model| model <= self.turn);
        let found = after.chain(around).find_map(|&model| {
            if self.all.iter().any(|one| one.called && one.waiter.model == model) {
                return None;
            }
            let open = Priority::ALL
                .into_iter()
                .filter(|one| self.blocked.get(&model).is_none_or(|blocked| blocked < one));
            let heads: Vec<Standing> = open.filter_map(|one| self.head(model, one)).collect();
            let aged = heads.iter().find(|one| {
                one.waiter.deadline.since(one.entered).get() / 2 <= now.since(one.entered).get()
            });
            let starts = self.starts.get(&model).copied().unwrap_or(0);
            let turn = starts % AGING_EVERY == AGING_EVERY - 1;
            aged.filter(|_| turn).or(heads.last()).copied()
        })?;
        self.turn = found.waiter.model;
        let one = self.all.iter_mut().find(|one| one.ticket == found.ticket)?;
        one.called = true;
        Some(one.ticket)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Standing> {
        let place = self.all.iter().position(|one| one.ticket == ticket)?;
        Some(self.all.remove(place))
    }

    fn admitted(&mut self, ticket: Ticket) {
        let Some(Standing { waiter, .. }) = self.remove(ticket) else { return };
        let lane = (waiter.model, waiter.priority);
        let tag = self.tags.entry((lane.0, lane.1, waiter.tenant)).or_default();
        let clock = self.clocks.entry(lane).or_default();
        *clock = (*clock).max(*tag);
        *tag += waiter.tokens.max(1);
        *self.starts.entry(waiter.model).or_default() += 1;
        self.rest(waiter.model);
    }

    fn put_back(&mut self, ticket: Ticket, portion: Portion) {
        let place = self.all.iter().position(|one| one.ticket == ticket && one.called);
        let Some(place) = place else { return };
        let waiter = self.all[place].waiter;
        self.stands(&waiter);
        self.all[place].called = false;
        let excessive = self.excessive.iter().filter(|one| one.0 == waiter.model).count();
        if portion == Portion::Beyond && excessive < 4 {
            self.excessive.insert((waiter.model, waiter.tenant));
            return;
        }
        let blocked = self.blocked.entry(waiter.model).or_insert(waiter.priority);
        *blocked = (*blocked).max(waiter.priority);
    }

    fn leave(&mut self, ticket: Ticket) -> bool {
        let Some(Standing { waiter, .. }) = self.remove(ticket) else { return false };
        self.rest(waiter.model);
        true
    }

    /// Lanes in which nobody stands begin anew, once nobody of the line is being placed.
    fn rest(&mut self, model: u64) {
        let line: Vec<&Standing> =
            self.all.iter().filter(|one| one.waiter.model == model).collect();
        if line.is_empty() {
            self.blocked.remove(&model);
            self.excessive.retain(|one| one.0 != model);
        }
        if line.iter().any(|one| one.called) {
            return;
        }
        for priority in Priority::ALL {
            if !line.iter().any(|one| one.waiter.priority == priority) {
                self.clocks.remove(&(model, priority));
                self.tags.retain(|key, _| (key.0, key.1) != (model, priority));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enter { priority: usize, tenant: u64, model: u64, tokens: u64, seconds: u64 },
    Call,
    Admitted(usize),
    PutBack(usize, Portion),
    Leave(usize),
    Freed,
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..4_u64, 0..3_u64, 0..500_u64, 1..60_u64).prop_map(
            |(priority, tenant, model, tokens, seconds)| {
                Step::Enter { priority, tenant, model, tokens, seconds }
            }
        ),
        6 => Just(Step::Call),
        4 => any::<usize>().prop_map(Step::Admitted),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, beyond)| {
            Step::PutBack(which, if beyond { Portion::Beyond } else { Portion::Within })
        }),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => Just(Step::Freed),
        1 => Just(Step::Expire),
    ]
}

struct World {
    queue: Queue,
    twin: Twin,
    now: Instant,
    /// Every ticket ever given: later words on one must do no harm.
    tickets: Vec<Ticket>,
}

impl World {
    fn ticket(&self, which: usize) -> Option<Ticket> {
        (!self.tickets.is_empty()).then(|| self.tickets[which % self.tickets.len()])
    }

    /// Only who was called is admitted or put back.
    fn called(&self, which: usize) -> Option<Ticket> {
        let called: Vec<Ticket> =
            self.twin.all.iter().filter(|one| one.called).map(|one| one.ticket).collect();
        (!called.is_empty()).then(|| called[which % called.len()])
    }

    fn take(&mut self, step: &Step) {
        self.now = self.now + Micros::new(SECOND / 3);
        match *step {
            Step::Enter { priority, tenant, model, tokens, seconds } => {
                let deadline = self.now + Micros::new(seconds * SECOND);
                let waiter =
                    Waiter { tokens, deadline, ..waiter(Priority::ALL[priority], tenant, model) };
                // How fast a line moves is not the twin's affair: who would be late is not let in.
                match self.queue.enter(waiter, self.now) {
                    Ok(ticket) => {
                        self.twin.enter(ticket, waiter, self.now);
                        self.tickets.push(ticket);
                    }
                    Err(refusal) => assert!(matches!(refusal, Refusal::TooLate { .. })),
                }
            }
            Step::Call => assert_eq!(self.queue.call(self.now), self.twin.call(self.now)),
            Step::Admitted(which) => {
                if let Some(ticket) = self.called(which) {
                    self.queue.admitted(ticket, self.now);
                    self.twin.admitted(ticket);
                }
            }
            Step::PutBack(which, portion) => {
                if let Some(ticket) = self.called(which) {
                    self.queue.put_back(ticket, portion);
                    self.twin.put_back(ticket, portion);
                }
            }
            Step::Leave(which) => {
                if let Some(ticket) = self.ticket(which) {
                    assert_eq!(self.queue.leave(ticket), self.twin.leave(ticket));
                }
            }
            Step::Freed => {
                self.queue.freed();
                self.twin.blocked.clear();
                self.twin.excessive.clear();
            }
            Step::Expire => self.expire(),
        }
    }

    fn expire(&mut self) {
        let mut over: Vec<Ticket> = self.queue.expire(self.now);
        over.sort_unstable();
        let late = |one: &&Standing| !one.called && one.waiter.deadline <= self.now;
        let mut twins: Vec<Ticket> =
            self.twin.all.iter().filter(late).map(|one| one.ticket).collect();
        twins.sort_unstable();
        assert_eq!(over, twins);
        for ticket in over {
            self.twin.leave(ticket);
        }
    }

    fn check(&self) {
        let all = &self.twin.all;
        assert_eq!(self.queue.len(), all.len());
        assert_eq!(self.queue.is_empty(), all.is_empty());
        assert_eq!(self.queue.tokens(), all.iter().map(|one| one.waiter.tokens).sum::<u64>());
        assert_eq!(self.queue.next_deadline(), all.iter().map(|one| one.waiter.deadline).min());
        for priority in Priority::ALL {
            let waiting = all.iter().filter(|one| one.waiter.priority == priority).count();
            assert_eq!(self.queue.waiting(priority), waiting);
            for model in 0..3 {
                let stands = |one: &Standing| {
                    !one.called && one.waiter.model == model && priority <= one.waiter.priority
                };
                assert_eq!(self.queue.must_queue(model, priority), all.iter().any(stands));
            }
        }
    }
}

proptest! {
    #[test]
    fn the_queue_does_what_its_literal_twin_does(steps in prop::collection::vec(step(), 1..300)) {
        let mut world =
            World { queue: queue(), twin: Twin::default(), now: Instant::ORIGIN, tickets: vec![] };
        for step in &steps {
            world.take(step);
            world.check();
        }
        for ticket in world.tickets.clone() {
            world.queue.leave(ticket);
            world.twin.leave(ticket);
        }
        world.check();
        prop_assert!(world.queue.is_empty());
    }
}

/// Starts who is called until nobody is; the tenants in that order.
fn serve(queue: &mut Queue, count: usize) -> Vec<u64> {
    let mut served = Vec::new();
    while served.len() < count
        && let Some(ticket) = queue.call(Instant::ORIGIN)
    {
        served.push(queue.waiter(ticket).unwrap().0.tenant.0);
        queue.admitted(ticket, Instant::ORIGIN);
    }
    served
}

#[test]
fn ten_times_its_share_is_only_had_while_nobody_else_waits() {
    let mut queue = queue();
    for _ in 0..1_000 {
        queue.enter(waiter(Priority::Default, 1, 0), Instant::ORIGIN).unwrap();
    }
    assert_eq!(serve(&mut queue, 500), [1; 500], "nobody else waits");
    for _ in 0..100 {
        queue.enter(waiter(Priority::Default, 2, 0), Instant::ORIGIN).unwrap();
    }
    let served = serve(&mut queue, 200);
    assert_eq!(served.iter().filter(|&&tenant| tenant == 2).count(), 100, "turn by turn");
    assert_eq!(served[..4], [2, 1, 2, 1], "what was served before is no debt");
    assert_eq!(serve(&mut queue, 400), [1; 300 + 100], "alone again");
    assert!(queue.is_empty());
}

#[test]
fn shares_are_of_tokens_and_not_of_requests() {
    let mut queue = queue();
    for _ in 0..100 {
        let long = Waiter { tokens: 900, ..waiter(Priority::Default, 1, 0) };
        queue.enter(long, Instant::ORIGIN).unwrap();
        for _ in 0..9 {
            queue.enter(waiter(Priority::Default, 2, 0), Instant::ORIGIN).unwrap();
        }
    }
    let served = serve(&mut queue, 500);
    let long = served.iter().filter(|&&tenant| tenant == 1).count();
    assert!((49..=51).contains(&long), "{long} of 500");
}

#[test]
fn the_greater_priority_goes_first_and_flex_still_has_its_turn_when_it_has_waited() {
    let mut queue = queue();
    let deadline = at(10 * SECOND);
    let flex = Waiter { deadline, ..waiter(Priority::Flex, 1, 0) };
    let first = queue.enter(flex, Instant::ORIGIN).unwrap();
    let mut turns = Vec::new();
    for round in 0..40 {
        queue.enter(waiter(Priority::Priority, 2, 0), at(round)).unwrap();
        // For the first twenty calls it has only just come.
        let now = at(if round < 20 { 0 } else { 6 * SECOND });
        let ticket = queue.call(now).unwrap();
        if ticket == first {
            turns.push(round);
        }
        queue.admitted(ticket, now);
    }
    assert_eq!(turns, [23], "the first of every eighth call after half of its time");
}

#[test]
fn a_model_without_room_blocks_nobody_elses_waiters() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let full = queue.enter(waiter(Priority::Default, 1, 7), now).unwrap();
    let flex = queue.enter(waiter(Priority::Flex, 1, 7), now).unwrap();
    let urgent = queue.enter(waiter(Priority::Priority, 1, 7), now).unwrap();
    let other = queue.enter(waiter(Priority::Flex, 1, 8), now).unwrap();
    assert_eq!(queue.call(now), Some(urgent));
    assert_eq!(queue.call(now), Some(other), "one of a line at a time");
    queue.put_back(urgent, Portion::Within);
    assert_eq!(queue.call(now), None, "lesser ones would find no room either");
    queue.freed();
    assert_eq!(queue.call(now), Some(urgent));
    queue.admitted(urgent, now);
    assert_eq!(queue.call(now), Some(full));
    queue.put_back(full, Portion::Within);
    let second = queue.enter(waiter(Priority::Priority, 1, 7), now).unwrap();
    assert_eq!(queue.call(now), Some(second), "for it there may be room");
    queue.admitted(second, now);
    assert!(queue.must_queue(7, Priority::Default) && !queue.must_queue(7, Priority::Priority));
    queue.admitted(other, now);
    queue.freed();
    assert_eq!(queue.call(now), Some(full), "it kept its place");
    assert!(queue.leave(full) && queue.leave(flex));
    assert!(queue.is_empty());
}

#[test]
fn what_may_wait_is_bounded_and_those_that_matter_have_room_left() {
    let settings = QueueSettings { requests: 16, tokens: 10_000, per_tenant: 3 };
    let mut queue = Queue::new(settings);
    let now = Instant::ORIGIN;
    let names = |queue: &mut Queue, priority, tenant| {
        let refused = queue.enter(waiter(priority, tenant, 0), now).err();
        assert!(refused.is_none_or(|one| one.retry_after() == RETRY_AFTER_MIN));
        refused.map(Refusal::name)
    };
    for place in 0..8 {
        assert_eq!(names(&mut queue, Priority::Flex, place / 2), None);
    }
    assert_eq!(names(&mut queue, Priority::Flex, 9), Some("queue_full"), "half is full");
    for place in 0..6 {
        assert_eq!(names(&mut queue, Priority::Default, 20 + place), None);
    }
    assert_eq!(names(&mut queue, Priority::Default, 30), Some("queue_full"));
    assert_eq!(names(&mut queue, Priority::Priority, 0), None);
    assert_eq!(names(&mut queue, Priority::Priority, 0), Some("tenant_full"));
    let heavy = Waiter { tokens: 9_000, ..waiter(Priority::Priority, 40, 0) };
    assert_eq!(queue.enter(heavy, now).map_err(Refusal::name), Err("queue_full"));
    assert_eq!(queue.len(), 15, "a refusal changes nothing");
    let mut blank = Queue::new(settings);
    let huge = Waiter { tokens: u64::MAX, ..heavy };
    assert!(blank.enter(huge, now).is_ok(), "alone it may");
}

#[test]
fn who_could_not_be_started_in_time_is_refused_at_once() {
    let mut queue = queue();
    // A hundred requests of a hundred tokens, one started each second.
    for _ in 0..100 {
        queue.enter(waiter(Priority::Default, 1, 0), Instant::ORIGIN).unwrap();
    }
    for second in 1..=20 {
        let ticket = queue.call(at(second * SECOND)).unwrap();
        queue.admitted(ticket, at(second * SECOND));
    }
    let now = at(20 * SECOND);
    let late = |tenant, seconds, priority| Waiter {
        deadline: now + Micros::new(seconds * SECOND),
        ..waiter(priority, tenant, 0)
    };
    // Eighty of its own are before it.
    let refused = queue.enter(late(1, 60, Priority::Default), now).unwrap_err();
    let Refusal::TooLate { wait, retry_after } = refused else { panic!("{refused:?}") };
    assert!((78..=82).contains(&(wait.get() / SECOND)), "{wait}");
    assert_eq!(retry_after, RETRY_AFTER_MAX);
    assert!(queue.enter(late(1, 90, Priority::Default), now).is_ok());
    // Another tenant's turn comes after one of them, and a greater priority's before.
    assert!(queue.enter(late(2, 5, Priority::Default), now).is_ok());
    assert!(queue.enter(late(1, 5, Priority::Priority), now).is_ok());
    let flex = queue.enter(late(3, 60, Priority::Flex), now).unwrap_err();
    assert_eq!(flex.name(), "too_late");
}

#[test]
fn who_has_more_than_its_share_holds_up_nobody_but_itself() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let greedy = queue.enter(waiter(Priority::Default, 1, 7), now).unwrap();
    let again = queue.enter(waiter(Priority::Flex, 1, 7), now).unwrap();
    let modest = queue.enter(waiter(Priority::Default, 2, 7), now).unwrap();
    assert_eq!(queue.call(now), Some(greedy));
    queue.put_back(greedy, Portion::Beyond);
    assert_eq!(queue.call(now), Some(modest));
    queue.admitted(modest, now);
    assert_eq!(queue.call(now), None);
    queue.freed();
    assert_eq!(queue.call(now), Some(greedy));
    queue.admitted(greedy, now);
    assert_eq!(queue.call(now), Some(again));
}

#[test]
fn time_passes_for_those_who_wait_and_not_for_who_is_being_placed() {
    let mut queue = queue();
    let late = Waiter { deadline: at(5), ..waiter(Priority::Default, 1, 0) };
    let placed = queue.enter(late, Instant::ORIGIN).unwrap();
    let waits = queue.enter(late, Instant::ORIGIN).unwrap();
    assert_eq!(queue.call(at(1)), Some(placed));
    assert_eq!(queue.expire(at(4)), []);
    assert_eq!(queue.expire(at(5)), [waits]);
    assert_eq!(queue.next_deadline(), Some(at(5)));
    queue.put_back(placed, Portion::Within);
    assert_eq!(queue.expire(at(5)), [placed]);
    assert!(!queue.leave(placed) && queue.is_empty());
}
