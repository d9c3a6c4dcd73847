//! Who passes whom at a worker: a prompt that is in use there goes first (longest prefix match, with a deficit).

use alloc::format;
use alloc::vec::Vec;

use overdraft_units::Instant;

use super::queue::{here, key, queue, there, waiter};
use crate::admit::{Awaits, Hold, Priority, Waiter};
use crate::fleet::WorkerId;
use crate::prefix::PrefixKey;

#[test]
fn a_prompt_that_is_in_use_goes_first_until_four_times_as_much_has_passed() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let of = |tenant, number| Waiter {
        first_half: Some(key(number)),
        ..waiter(Priority::Default, tenant, 0)
    };
    let first = queue.enter(of(1, 0), here(), now).unwrap();
    let later: Vec<_> =
        (0..12).map(|number| queue.enter(of(2 - number % 2, 1), here(), now).unwrap()).collect();
    let in_use = |at: WorkerId, one: PrefixKey| at == here() && one == key(1);
    // Of its own tenant and of another; one that is put back is still before the others.
    for round in 0..4 {
        let ticket = queue.call(&in_use, now).unwrap();
        assert!(later.contains(&ticket), "round {round}");
        assert!(queue.admitted(ticket, now), "round {round}: it was not its turn");
    }
    assert_eq!(queue.call(&in_use, now), Some(first), "four times its tokens have passed");
    queue.put_back(first, here(), Awaits::Prefix, Hold::Full);
    queue.freed(here());
    assert_eq!(queue.call(&in_use, now), Some(first), "nor is that forgotten where it is put back");
    assert!(!queue.admitted(first, now), "it was its turn");
}

#[test]
fn nobody_passes_for_what_is_in_use_elsewhere_or_one_that_is_small() {
    let now = Instant::ORIGIN;
    let of = |number, tokens| Waiter {
        first_half: Some(key(number)),
        tokens,
        ..waiter(Priority::Default, 1, 0)
    };
    let called = |tokens, at| {
        let mut queue = queue();
        let first = queue.enter(of(0, tokens), here(), now).unwrap();
        queue.enter(of(1, 900), here(), now).unwrap();
        let in_use = |worker: WorkerId, one: PrefixKey| worker == at && one == key(1);
        queue.call(&in_use, now) == Some(first)
    };
    assert!(!called(900, here()));
    assert!(called(900, there()), "it is not in use where room is");
    assert!(called(100, here()), "the first is small: it needs no more than the other");
}

#[test]
fn nothing_is_kept_of_one_that_leaves_while_another_passes_it() {
    let mut queue = queue();
    let now = Instant::ORIGIN;
    let of = |number| Waiter { first_half: Some(key(number)), ..waiter(Priority::Default, 1, 0) };
    let first = queue.enter(of(0), here(), now).unwrap();
    let second = queue.enter(of(1), here(), now).unwrap();
    let third = queue.enter(of(0), here(), now).unwrap();
    let in_use = |_: WorkerId, one: PrefixKey| one == key(1);
    assert_eq!(queue.call(&in_use, now), Some(second));
    queue.leave(first);
    queue.admitted(second, now);
    let told = format!("{queue:?}");
    assert!(told.contains(&format!("{third:?}")), "{told}");
    assert!(!told.contains(&format!("{first:?}")), "{told}");
}
