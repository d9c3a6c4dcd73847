//! Who is tried where room comes free although it waits for another worker.

use alloc::vec::Vec;

use overdraft_units::Instant;

use super::queue::{here, key, nothing, queue, there, waiter};
use crate::admit::{Awaits, Hold, Priority, Queue, Ticket, Waiter};
use crate::fleet::WorkerId;
use crate::prefix::PrefixKey;

const NOW: Instant = Instant::ORIGIN;

/// Requests that need no particular worker: one waits there, then one here.
fn two(there_first: Waiter, here_second: Waiter) -> (Queue, [Ticket; 2]) {
    let mut queue = queue();
    let first = queue.enter(there_first, there(), NOW).unwrap();
    let second = queue.enter(here_second, here(), NOW).unwrap();
    // Neither has found room yet.
    while let Some(ticket) = queue.call(&nothing, NOW) {
        let is_first = ticket == first;
        let (at, waiter) = if is_first { (there(), there_first) } else { (here(), here_second) };
        queue.put_back(ticket, at, waiter.awaits, Hold::Full);
    }
    (queue, [first, second])
}

fn free(tenant: u64) -> Waiter {
    Waiter { awaits: Awaits::Room, ..waiter(Priority::Default, tenant, 0) }
}

#[test]
fn who_came_first_is_tried_first_wherever_room_comes_free() {
    let (mut queue, [first, second]) = two(free(1), free(1));
    queue.freed(here());
    assert_eq!(queue.call(&nothing, NOW), Some(first), "it waits there, and came first");
    queue.put_back(first, there(), Awaits::Room, Hold::Full);
    assert_eq!(queue.call(&nothing, NOW), Some(second), "one from elsewhere for each event");
    queue.admitted(second, NOW);
    assert_eq!(queue.call(&nothing, NOW), Some(first), "nobody waits here any more");
}

#[test]
fn one_from_elsewhere_after_each_start() {
    let mut queue = queue();
    let earlier: Vec<_> = (0..3).map(|_| queue.enter(free(1), there(), NOW).unwrap()).collect();
    let own = queue.enter(free(1), here(), NOW).unwrap();
    queue.freed(here());
    let mut order = Vec::new();
    while let Some(ticket) = queue.call(&nothing, NOW) {
        queue.admitted(ticket, NOW);
        order.push(ticket);
    }
    assert_eq!(order[..3], earlier, "they came before {own:?}");
}

#[test]
fn who_waits_for_its_prefix_is_tried_elsewhere_only_where_that_is_in_use() {
    let bound = Waiter {
        awaits: Awaits::Prefix,
        first_half: Some(key(1)),
        ..waiter(Priority::Default, 1, 0)
    };
    let called = |is_pinned: &dyn Fn(WorkerId, PrefixKey) -> bool| {
        let (mut queue, tickets) = two(bound, free(1));
        queue.freed(here());
        (queue.call(is_pinned, NOW), tickets)
    };
    let (next, [_, second]) = called(&nothing);
    assert_eq!(next, Some(second), "its prefix is there");
    let (next, [first, _]) = called(&|at, one| at == here() && one == key(1));
    assert_eq!(next, Some(first), "it is here as well");
}

#[test]
fn what_a_request_waits_for_is_of_the_worker_where_it_waits_now() {
    let mut queue = queue();
    let bound = Waiter { awaits: Awaits::Prefix, ..free(1) };
    let first = queue.enter(bound, here(), NOW).unwrap();
    assert_eq!(queue.call(&nothing, NOW), Some(first));
    queue.put_back(first, there(), Awaits::Room, Hold::Full);
    let second = queue.enter(free(1), here(), NOW).unwrap();
    queue.freed(here());
    assert_eq!(
        queue.call(&nothing, NOW),
        Some(first),
        "{second:?} came later, and any room will do"
    );
}

#[test]
fn a_greater_priority_goes_first_here_and_from_elsewhere() {
    let (mut queue, [_, second]) = two(free(1), Waiter { priority: Priority::Priority, ..free(1) });
    queue.freed(here());
    assert_eq!(queue.call(&nothing, NOW), Some(second), "it matters more than what came first");
    let (mut queue, [first, _]) = two(Waiter { priority: Priority::Priority, ..free(1) }, free(2));
    queue.freed(here());
    assert_eq!(queue.call(&nothing, NOW), Some(first), "it matters more, and waits there");
}
