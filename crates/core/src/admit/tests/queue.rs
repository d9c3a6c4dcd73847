//! The queue's invariants over drawn steps, and its promises.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId};
use proptest::prelude::*;

use crate::admit::worker_queue::LOOKS_MAX;
use crate::admit::{
    Awaits, Hold, Priority, Queue, QueueSettings, RETRY_AFTER_MAX, RETRY_AFTER_MIN, Refusal,
    Tenant, Ticket, Waiter,
};
use crate::fleet::WorkerId;
use crate::prefix::{Chunking, PrefixChain, PrefixKey};

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Instant {
    Instant::ORIGIN + Micros::new(micros)
}

pub(super) fn waiter(priority: Priority, tenant: u64, model: u64) -> Waiter {
    let (tenant, deadline) = (Tenant(tenant), at(1_000_000 * SECOND));
    Waiter {
        priority,
        tenant,
        model,
        tokens: 100,
        first_half: None,
        awaits: Awaits::Prefix,
        deadline,
        limit: deadline,
    }
}

/// What a prompt begins with.
pub(super) fn key(number: u32) -> PrefixKey {
    let one = Chunking::Tokens(BlockSize::new(1).unwrap());
    let mut chain = PrefixChain::new(CacheSalt(0), one);
    chain.push_tokens(&[TokenId(number)]);
    chain.keys()[0]
}

/// Nothing is in use anywhere.
pub(super) fn nothing(_: WorkerId, _: PrefixKey) -> bool {
    false
}

pub(super) fn queue() -> Queue {
    Queue::new(QueueSettings { requests: 10_000, tokens: u64::MAX, per_tenant: 10_000, held: 100 })
}

pub(super) fn here() -> WorkerId {
    WorkerId::at(0)
}

pub(super) fn there() -> WorkerId {
    WorkerId::at(1)
}

#[derive(Clone, Debug)]
enum Step {
    Enter { priority: Priority, tenant: u64, model: u64, tokens: u64, at: usize },
    Call,
    Admit,
    PutBack { at: usize, hold: Hold },
    Leave(usize),
    Free(usize),
    FreeAll,
    Expire(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(Priority::ALL.to_vec());
    let hold = prop::sample::select(vec![Hold::Full, Hold::Excess, Hold::Reserved]);
    prop_oneof![
        5 => (priority, 0..4_u64, 0..3_u64, 1..5_000_u64, 0..5_usize).prop_map(
            |(priority, tenant, model, tokens, at)| Step::Enter { priority, tenant, model, tokens, at }
        ),
        6 => Just(Step::Call),
        3 => Just(Step::Admit),
        4 => (0..5_usize, hold).prop_map(|(at, hold)| Step::PutBack { at, hold }),
        1 => any::<usize>().prop_map(Step::Leave),
        3 => (0..5_usize).prop_map(Step::Free),
        1 => Just(Step::FreeAll),
        1 => (0..30_u64).prop_map(Step::Expire),
    ]
}

/// A queue beside a list of all who wait, and of those that are being placed.
struct World {
    queue: Queue,
    all: Vec<(Ticket, Waiter)>,
    called: Vec<Ticket>,
    now: Instant,
}

impl World {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Enter { priority, tenant, model, tokens, at } => {
                let deadline = self.now + Micros::new(20 * SECOND);
                let limit = self.now + Micros::new(40 * SECOND);
                let first_half = Some(key(u32::try_from(tokens % 3).unwrap()));
                let waiter = waiter(priority, tenant, model);
                let waiter = Waiter { tokens, first_half, deadline, limit, ..waiter };
                if let Ok(ticket) = self.queue.enter(waiter, WorkerId::at(at), self.now) {
                    self.all.push((ticket, waiter));
                }
            }
            Step::Call => {
                let pinned = |at: WorkerId, one: PrefixKey| at == here() && one == key(1);
                if let Some(ticket) = self.queue.call(&pinned, self.now) {
                    assert!(!self.called.contains(&ticket), "nobody is called twice at once");
                    let model = |ticket: Ticket| {
                        self.all.iter().find(|(one, _)| *one == ticket).expect("it waits").1.model
                    };
                    let other = self.called.iter().any(|&one| model(one) == model(ticket));
                    assert!(!other, "one of a model at a time");
                    self.called.push(ticket);
                }
            }
            Step::Admit => {
                if let Some(ticket) = self.called.pop() {
                    self.queue.admitted(ticket, self.now);
                    self.all.retain(|(one, _)| *one != ticket);
                }
            }
            Step::PutBack { at, hold } => {
                if let Some(ticket) = self.called.pop() {
                    self.queue.put_back(ticket, WorkerId::at(at), Awaits::Prefix, hold);
                }
            }
            Step::Leave(which) if !self.all.is_empty() => {
                let (ticket, _) = self.all.swap_remove(which % self.all.len());
                self.called.retain(|one| *one != ticket);
                assert!(self.queue.leave(ticket));
            }
            Step::Free(at) => self.queue.freed(WorkerId::at(at)),
            Step::FreeAll => self.queue.freed_all(),
            Step::Expire(seconds) => {
                self.now = self.now + Micros::new(seconds * SECOND);
                let over = self.queue.expire(self.now);
                assert!(over.iter().all(|one| !self.called.contains(one)));
                self.all.retain(|(one, _)| !over.contains(one));
            }
            Step::Leave(_) => {}
        }
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.queue.len(), self.all.len());
        let tokens = self.all.iter().map(|(_, waiter)| waiter.tokens).sum::<u64>();
        assert_eq!(self.queue.tokens(), tokens);
        for priority in Priority::ALL {
            let count = self.all.iter().filter(|(_, waiter)| waiter.priority == priority).count();
            assert_eq!(self.queue.waiting(priority), count);
        }
        for model in 0..3 {
            let count = self.all.iter().filter(|(_, waiter)| waiter.model == model).count();
            assert_eq!(self.queue.waiting_for(model), count);
            let told = self.queue.waiting_by_model().find(|&(one, _)| one == model);
            assert_eq!(told, (0 < count).then_some((model, count)));
        }
    }
}

proptest! {
    #[test]
    fn what_is_counted_is_what_waits_and_work_is_bounded(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let (now, called) = (Instant::ORIGIN, Vec::new());
        let mut world = World { queue: queue(), all: Vec::new(), called, now };
        for step in &steps {
            world.take(step);
        }
        // Whoever is being placed is told that there is no room, and so is everybody else.
        while let Some(ticket) = world.called.pop() {
            world.queue.put_back(ticket, here(), Awaits::Prefix, Hold::Full);
        }
        world.queue.freed_all();
        let mut looks = 0;
        while let Some(ticket) = world.queue.call(&nothing, world.now) {
            let (_, at) = (ticket, here());
            world.queue.put_back(ticket, at, Awaits::Prefix, Hold::Full);
            looks += 1;
        }
        // Five workers, three models, and what moves is looked at where it came from.
        prop_assert!(looks <= 5 * 3 * LOOKS_MAX, "{looks}");
        let left: Vec<Ticket> = world.all.iter().map(|(ticket, _)| *ticket).collect();
        for ticket in left {
            prop_assert!(world.queue.leave(ticket));
        }
        prop_assert!(world.queue.is_empty());
        prop_assert_eq!(world.queue.tokens(), 0);
    }
}

/// Starts who is called until nobody is; the tenants in that order.
fn serve(queue: &mut Queue, count: usize) -> Vec<u64> {
    let mut served = Vec::new();
    while served.len() < count
        && let Some(ticket) = queue.call(&nothing, Instant::ORIGIN)
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
        queue.enter(waiter(Priority::Default, 1, 0), here(), Instant::ORIGIN).unwrap();
    }
    assert_eq!(serve(&mut queue, 500), [1; 500], "nobody else waits");
    for _ in 0..100 {
        queue.enter(waiter(Priority::Default, 2, 0), here(), Instant::ORIGIN).unwrap();
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
        queue.enter(long, here(), Instant::ORIGIN).unwrap();
        for _ in 0..9 {
            queue.enter(waiter(Priority::Default, 2, 0), here(), Instant::ORIGIN).unwrap();
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
    let first = queue.enter(flex, here(), Instant::ORIGIN).unwrap();
    let mut turns = Vec::new();
    for round in 0..40 {
        queue.enter(waiter(Priority::Priority, 2, 0), here(), at(round)).unwrap();
        // For the first twenty calls it has only just come.
        let now = at(if round < 20 { 0 } else { 6 * SECOND });
        let ticket = queue.call(&nothing, now).unwrap();
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
    let full = queue.enter(waiter(Priority::Default, 1, 7), here(), now).unwrap();
    let flex = queue.enter(waiter(Priority::Flex, 1, 7), here(), now).unwrap();
    let urgent = queue.enter(waiter(Priority::Priority, 1, 7), here(), now).unwrap();
    let other = queue.enter(waiter(Priority::Flex, 1, 8), here(), now).unwrap();
    assert_eq!(queue.call(&nothing, now), Some(urgent));
    assert_eq!(queue.call(&nothing, now), Some(other), "one of a line at a time");
    queue.put_back(urgent, here(), Awaits::Prefix, Hold::Full);
    assert_eq!(
        queue.call(&nothing, now),
        None,
        "lesser ones do not take the room that it waits for"
    );
    queue.freed(here());
    assert_eq!(queue.call(&nothing, now), Some(urgent));
    queue.admitted(urgent, now);
    assert_eq!(queue.call(&nothing, now), Some(full));
    queue.admitted(full, now);
    queue.admitted(other, now);
    assert_eq!(queue.call(&nothing, now), Some(flex));
    queue.admitted(flex, now);
    assert!(queue.is_empty());
}

#[test]
fn what_comes_free_is_for_those_who_wait_there() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let first = queue.enter(waiter(Priority::Default, 1, 0), here(), now).unwrap();
    let second = queue.enter(waiter(Priority::Default, 1, 0), there(), now).unwrap();
    for ticket in [first, second] {
        assert_eq!(queue.call(&nothing, now), Some(ticket));
        let at = if ticket == first { here() } else { there() };
        queue.put_back(ticket, at, Awaits::Prefix, Hold::Full);
    }
    assert_eq!(queue.call(&nothing, now), None);
    queue.freed(there());
    assert_eq!(queue.call(&nothing, now), Some(second), "though the other came first");
}

#[test]
fn where_nobody_waits_the_last_of_the_longest_is_asked_once() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let enter = |queue: &mut Queue| queue.enter(waiter(Priority::Default, 1, 0), here(), now);
    let tickets: Vec<Ticket> = (0..3).map(|_| enter(&mut queue).unwrap()).collect();
    while let Some(ticket) = queue.call(&nothing, now) {
        queue.put_back(ticket, here(), Awaits::Prefix, Hold::Full);
    }
    queue.freed(there());
    assert_eq!(queue.call(&nothing, now), Some(tickets[2]), "it would wait for the longest");
    queue.put_back(tickets[2], here(), Awaits::Prefix, Hold::Full);
    assert_eq!(
        queue.call(&nothing, now),
        None,
        "it waits on for its prefix, and so would all others"
    );
}

#[test]
fn one_that_has_waited_for_long_has_its_worker_kept_for_it() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let large = Waiter { tokens: 90_000, ..waiter(Priority::Default, 1, 0) };
    let large = queue.enter(large, here(), now).unwrap();
    assert_eq!(queue.call(&nothing, now), Some(large));
    queue.put_back(large, here(), Awaits::Prefix, Hold::Full);
    let ahead = |queue: &Queue| queue.ahead(0, here(), None, Priority::Default);
    assert!(!ahead(&queue).holds(500), "a small one passes");
    assert!(ahead(&queue).holds(50_000), "one that is nearly as large does not");
    queue.freed(here());
    assert_eq!(queue.call(&nothing, now), Some(large));
    queue.put_back(large, here(), Awaits::Prefix, Hold::Reserved);
    assert!(ahead(&queue).holds(500), "nobody passes any more");
    let small = queue.enter(waiter(Priority::Default, 1, 0), here(), now).unwrap();
    assert_eq!(queue.call(&nothing, now), None, "not even one that waits");
    queue.leave(large);
    queue.freed(here());
    assert_eq!(queue.call(&nothing, now), Some(small));
}

#[test]
fn what_may_wait_is_bounded_and_those_that_matter_have_room_left() {
    let settings = QueueSettings { requests: 16, tokens: 10_000, per_tenant: 3, held: 8 };
    let mut queue = Queue::new(settings);
    let now = Instant::ORIGIN;
    let names = |queue: &mut Queue, priority, tenant| {
        let refused = queue.enter(waiter(priority, tenant, 0), here(), now).err();
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
    assert_eq!(queue.enter(heavy, here(), now).map_err(Refusal::name), Err("queue_full"));
    assert_eq!(queue.len(), 15, "a refusal changes nothing");
    let mut blank = Queue::new(settings);
    let huge = Waiter { tokens: u64::MAX, ..heavy };
    assert!(blank.enter(huge, here(), now).is_ok(), "alone it may");
}

#[test]
fn who_could_not_be_started_in_time_is_refused_at_once() {
    let mut queue = queue();
    // A hundred requests of a hundred tokens, one started each second.
    for _ in 0..100 {
        queue.enter(waiter(Priority::Default, 1, 0), here(), Instant::ORIGIN).unwrap();
    }
    for second in 1..=20 {
        let ticket = queue.call(&nothing, at(second * SECOND)).unwrap();
        queue.admitted(ticket, at(second * SECOND));
    }
    let now = at(20 * SECOND);
    let late = |tenant, seconds, priority| Waiter {
        limit: now + Micros::new(seconds * SECOND),
        ..waiter(priority, tenant, 0)
    };
    // Eighty of its own are before it; how fast they go is known within a factor of two.
    let refused = queue.enter(late(1, 39, Priority::Default), here(), now).unwrap_err();
    let Refusal::TooLate { wait, retry_after } = refused else { panic!("{refused:?}") };
    assert!((78..=82).contains(&(wait.get() / SECOND)), "{wait}");
    assert_eq!(retry_after, RETRY_AFTER_MAX);
    assert!(queue.enter(late(1, 42, Priority::Default), here(), now).is_ok());
    // Another tenant's turn comes after one of them, and a greater priority's before.
    assert!(queue.enter(late(2, 5, Priority::Default), here(), now).is_ok());
    assert!(queue.enter(late(1, 5, Priority::Priority), here(), now).is_ok());
    let flex = queue.enter(late(3, 39, Priority::Flex), here(), now).unwrap_err();
    assert_eq!(flex.name(), "too_late");
}

#[test]
fn a_fleet_that_fills_for_the_first_time_refuses_nobody_for_being_slow_to_start() {
    // Ten were started in the first second that anybody waited, and nothing has ended yet.
    let mut queue = queue();
    let enter = |queue: &mut Queue, now| {
        let limit = now + Micros::new(60 * SECOND);
        queue.enter(Waiter { limit, ..waiter(Priority::Default, 1, 0) }, here(), now)
    };
    for _ in 0..2_000 {
        enter(&mut queue, Instant::ORIGIN).unwrap();
    }
    for tenth in 1..=10 {
        let now = at(tenth * SECOND / 10);
        let ticket = queue.call(&nothing, now).unwrap();
        queue.admitted(ticket, now);
    }
    assert!(enter(&mut queue, at(SECOND)).is_ok(), "200 s is too far from what one second shows");
    for second in 2..=14 {
        for _ in 0..10 {
            let ticket = queue.call(&nothing, at(second * SECOND)).unwrap();
            queue.admitted(ticket, at(second * SECOND));
        }
    }
    let refused = enter(&mut queue, at(14 * SECOND)).unwrap_err();
    assert_eq!(refused.name(), "too_late", "it has moved like that for fourteen seconds");
}

#[test]
fn who_is_over_its_time_is_kept_while_its_line_moves_fast_enough() {
    // Eighty that came at once: one is started each second, then nobody for a while.
    let enter = |queue: &mut Queue, tenant| {
        let waiter = Waiter {
            deadline: at(30 * SECOND),
            limit: at(60 * SECOND),
            ..waiter(Priority::Default, tenant, 0)
        };
        queue.enter(waiter, here(), Instant::ORIGIN).unwrap()
    };
    let start = |queue: &mut Queue, seconds: core::ops::RangeInclusive<u64>| {
        for second in seconds {
            let ticket = queue.call(&nothing, at(second * SECOND)).unwrap();
            queue.admitted(ticket, at(second * SECOND));
        }
    };
    let mut queue = queue();
    let tickets: Vec<Ticket> = (0..80).map(|_| enter(&mut queue, 1)).collect();
    start(&mut queue, 1..=30);
    // Of the fifty that are left the first thirty are started within their limit, as it looks now.
    let over = queue.expire(at(30 * SECOND));
    assert!((19..=20).contains(&over.len()), "{}", over.len());
    assert_eq!(over, tickets[80 - over.len()..]);
    assert_eq!(queue.expire(at(59 * SECOND)), [], "their time is another one now");
    start(&mut queue, 31..=50);
    // Who stands behind ten is not kept where nobody is started.
    assert_eq!(queue.keep(tickets[50], at(50 * SECOND)), Some(at(60 * SECOND)));
    assert_eq!(queue.keep(tickets[50], at(56 * SECOND)), None);
    let left = queue.len();
    assert_eq!(queue.expire(at(60 * SECOND)).len(), left, "nobody is kept beyond the limit");
}

#[test]
fn before_anybody_knows_how_fast_a_line_moves_nobody_is_kept() {
    let mut queue = queue();
    let late = Waiter { deadline: at(5), limit: at(10), ..waiter(Priority::Default, 1, 0) };
    let waits = queue.enter(late, here(), Instant::ORIGIN).unwrap();
    assert_eq!(queue.keep(waits, at(5)), None);
    assert_eq!(queue.expire(at(5)), [waits]);
}

#[test]
fn who_has_more_than_its_share_holds_up_nobody_but_itself() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let greedy = queue.enter(waiter(Priority::Default, 1, 7), here(), now).unwrap();
    let again = queue.enter(waiter(Priority::Flex, 1, 7), here(), now).unwrap();
    let modest = queue.enter(waiter(Priority::Default, 2, 7), here(), now).unwrap();
    assert_eq!(queue.call(&nothing, now), Some(greedy));
    queue.put_back(greedy, here(), Awaits::Prefix, Hold::Excess);
    assert_eq!(queue.call(&nothing, now), Some(modest));
    queue.admitted(modest, now);
    assert_eq!(queue.call(&nothing, now), Some(again), "at another priority it has another claim");
    queue.put_back(again, here(), Awaits::Prefix, Hold::Excess);
    assert_eq!(queue.call(&nothing, now), None);
    queue.freed(here());
    assert_eq!(queue.call(&nothing, now), Some(greedy));
    queue.admitted(greedy, now);
    assert_eq!(queue.call(&nothing, now), Some(again));
}

#[test]
fn those_who_have_more_than_their_share_take_no_turn_from_who_has_less() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let greedy: Vec<Ticket> = (1..=3)
        .map(|tenant| queue.enter(waiter(Priority::Default, tenant, 7), here(), now).unwrap())
        .collect();
    let modest: Vec<Ticket> = (4..=7)
        .map(|tenant| queue.enter(waiter(Priority::Default, tenant, 7), here(), now).unwrap())
        .collect();
    for one in greedy {
        assert_eq!(queue.call(&nothing, now), Some(one));
        queue.put_back(one, here(), Awaits::Prefix, Hold::Excess);
    }
    for one in modest {
        assert_eq!(queue.call(&nothing, now), Some(one));
        queue.put_back(one, here(), Awaits::Prefix, Hold::Full);
    }
    assert_eq!(queue.call(&nothing, now), None, "the work for one event is bounded");
}

#[test]
fn the_turn_of_those_who_have_waited_for_long_is_one_after_each_event() {
    let mut queue = queue();
    // The eighth call is theirs.
    for _ in 0..7 {
        let ticket = queue.enter(waiter(Priority::Default, 9, 0), here(), Instant::ORIGIN).unwrap();
        assert_eq!(queue.call(&nothing, Instant::ORIGIN), Some(ticket));
        queue.admitted(ticket, Instant::ORIGIN);
    }
    let deadline = at(10 * SECOND);
    let aged: Vec<Ticket> = (1..=5)
        .map(|tenant| {
            let flex = Waiter { deadline, ..waiter(Priority::Flex, tenant, 0) };
            queue.enter(flex, here(), Instant::ORIGIN).unwrap()
        })
        .collect();
    let greater = queue.enter(waiter(Priority::Priority, 6, 0), here(), at(6 * SECOND)).unwrap();
    let first = queue.call(&nothing, at(6 * SECOND)).unwrap();
    assert!(aged.contains(&first));
    queue.put_back(first, here(), Awaits::Prefix, Hold::Excess);
    assert_eq!(queue.call(&nothing, at(6 * SECOND)), Some(greater), "there is room for it alone");
}

#[test]
fn time_passes_for_those_who_wait_and_not_for_who_is_being_placed() {
    let mut queue = queue();
    let late = Waiter { deadline: at(5), limit: at(5), ..waiter(Priority::Default, 1, 0) };
    let placed = queue.enter(late, here(), Instant::ORIGIN).unwrap();
    let waits = queue.enter(late, here(), Instant::ORIGIN).unwrap();
    assert_eq!(queue.call(&nothing, at(1)), Some(placed));
    assert_eq!(queue.expire(at(4)), []);
    assert_eq!(queue.expire(at(5)), [waits]);
    queue.put_back(placed, here(), Awaits::Prefix, Hold::Full);
    assert_eq!(queue.expire(at(5)), [placed]);
    assert!(!queue.leave(placed) && queue.is_empty());
}

#[test]
fn those_that_are_held_are_bounded_and_settle_in_the_order_in_which_they_came() {
    let mut queue = Queue::new(QueueSettings { held: 3, ..QueueSettings::default() });
    let one = waiter(Priority::Default, 1, 1);
    let held: Vec<Ticket> =
        (0..3).map(|_| queue.enter(one, WorkerId::NOBODY, at(0)).unwrap()).collect();
    let refused = queue.enter(one, WorkerId::NOBODY, at(0)).unwrap_err();
    assert_eq!(refused.name(), "held_full");
    assert!(queue.enter(one, here(), at(0)).is_ok(), "others are not held");
    // Nobody is up yet: the first is tried, and the others wait for it.
    let mut called = queue.call(&nothing, at(1)).unwrap();
    while called != held[0] {
        queue.leave(called);
        called = queue.call(&nothing, at(1)).unwrap();
    }
    queue.put_back(called, WorkerId::NOBODY, Awaits::Prefix, Hold::Reserved);
    assert_eq!((queue.call(&nothing, at(1)), queue.held()), (None, 3));
    // One is, and is full: all wait there from now on.
    queue.freed_all();
    assert_eq!(queue.call(&nothing, at(2)), Some(held[0]));
    queue.put_back(held[0], here(), Awaits::Prefix, Hold::Full);
    queue.settle(1, here());
    assert_eq!((queue.held(), queue.len()), (0, 3));
    for ticket in held {
        queue.freed(here());
        assert_eq!(queue.call(&nothing, at(3)), Some(ticket));
        queue.admitted(ticket, at(3));
    }
    assert!(queue.is_empty());
}
