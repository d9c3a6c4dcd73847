//! Loads and what they want, as numbers worked out by hand; the hold, as a story over time.

use alloc::string::ToString;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::estimate::Lengths;
use crate::fleet::{Demand, Fleet, Probe, Scraped, Turn, WorkerId};

fn second(count: u64) -> Instant {
    Instant::ORIGIN + Micros::new(count * 1_000_000)
}

/// Workers that are up and serve `m`.
fn fleet(count: u64) -> (Fleet, Vec<WorkerId>) {
    let mut fleet = Fleet::new();
    let ids: Vec<WorkerId> = (0..count).map(|tag| fleet.join(tag).unwrap()).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&["m".to_string()]), second(0));
    }
    (fleet, ids)
}

fn scraped(at: Instant, running: u32, waiting: u32, kv: u16) -> Scraped {
    Scraped {
        at,
        running,
        waiting,
        kv_use_permille: Some(kv),
        kv_capacity: Some(Tokens::new(100_000)),
        block_size: None,
        preemptions: None,
    }
}

fn load(fleet: &Fleet, now: Instant) -> Load {
    let mut load = Load::default();
    fleet.workers().for_each(|(_, worker)| load.add(worker, now));
    load
}

#[track_caller]
fn check(load: Load, milli: u64, by: Signal) {
    assert_eq!(load.desired(Targets::default()), Desired { milli, by }, "{load:?}");
}

#[test]
fn the_signal_that_wants_most_counts() {
    let known = Load { members: 2, serving: 2, known: 2, ..Load::default() };
    check(known, 0, Signal::Kv);
    check(Load { kv_permille: 1_400, ..known }, 2_000, Signal::Kv);
    check(Load { kv_permille: 1_401, ..known }, 2_001, Signal::Kv);
    check(Load { kv_permille: 1_400, waiting: 35, ..known }, 3_500, Signal::Waiting);
    check(Load { waiting: 35, running: 640, ..known }, 5_000, Signal::Running);
}

#[test]
fn targets_are_what_one_worker_carries() {
    let load = Load { members: 1, serving: 1, known: 1, waiting: 60, ..Load::default() };
    let of = |waiting| load.desired(Targets { waiting, ..Targets::default() }).milli;
    assert_eq!((of(10), of(50), of(0)), (6_000, 1_200, 60_000));
    let full = Load { kv_permille: 900, ..load };
    let kv = Targets { kv_permille: 450, waiting: 1_000, running: 1_000 };
    assert_eq!(full.desired(kv), Desired { milli: 2_000, by: Signal::Kv });
}

#[test]
fn part_of_a_worker_is_a_worker() {
    let workers =
        [0, 1, 999, 1_000, 1_001].map(|milli| Desired { milli, by: Signal::Kv }.workers());
    assert_eq!(workers, [0, 1, 1, 1, 2]);
}

#[test]
fn a_load_is_what_workers_say_and_what_they_were_sent_since() {
    let (mut fleet, ids) = fleet(2);
    fleet.scraped(ids[0], scraped(second(1), 4, 3, 500), &Lengths::new());
    fleet.scraped(ids[1], scraped(second(1), 1, 0, 100), &Lengths::new());
    let before = load(&fleet, second(2));
    let expected =
        Load { members: 2, serving: 2, known: 2, kv_permille: 600, waiting: 3, running: 5 };
    assert_eq!(before, expected);
    let prompt = Tokens::new(20_000);
    let demand = Demand { prompt, ..Demand::default() };
    let attempt = fleet.start(ids[1], demand, Turn::First, second(2));
    let after = load(&fleet, second(2));
    assert_eq!((after.kv_permille, after.running), (800, 6), "felt before the next scrape");
    let _ = fleet.end(attempt, crate::fleet::Ending::Abandoned, second(2));
}

#[test]
fn c8_what_waits_is_no_running_request_and_what_is_queued_before_workers_waits() {
    let (mut fleet, ids) = fleet(1);
    fleet.scraped(ids[0], scraped(second(1), 400, 60, 0), &Lengths::new());
    let mut queued = load(&fleet, second(1));
    queued.add_queued(7);
    assert_eq!((queued.running, queued.waiting), (400, 67));
    let targets = Targets { waiting: 1_000, ..Targets::default() };
    // 400 of 128 to a worker; 3.593 with those that wait.
    assert_eq!(queued.desired(targets), Desired { milli: 3_125, by: Signal::Running });
}

#[test]
fn what_drains_is_not_counted_and_neither_is_its_load() {
    let (mut fleet, ids) = fleet(2);
    fleet.scraped(ids[0], scraped(second(1), 9, 9, 900), &Lengths::new());
    fleet.scraped(ids[1], scraped(second(1), 1, 0, 350), &Lengths::new());
    fleet.drain(ids[0]);
    let left = load(&fleet, second(1));
    assert_eq!((left.members, left.running, left.kv_permille), (1, 1, 350));
    check(left, 500, Signal::Kv);
}

#[test]
fn what_is_not_known_holds_the_present_number_and_asks_for_no_more() {
    let (mut fleet, ids) = fleet(3);
    check(load(&fleet, second(1)), 3_000, Signal::Unknown);
    for &id in &ids[..2] {
        fleet.scraped(id, scraped(second(1), 0, 0, 0), &Lengths::new());
    }
    check(load(&fleet, second(1)), 3_000, Signal::Unknown);
    fleet.scraped(ids[2], scraped(second(1), 0, 0, 0), &Lengths::new());
    check(load(&fleet, second(1)), 0, Signal::Kv);
    // Nobody has been heard of for long: the same as never.
    check(load(&fleet, second(60)), 3_000, Signal::Unknown);
    // A load beyond what is there asks for more, known or not.
    let short = Load { members: 3, serving: 3, known: 2, waiting: 80, ..Load::default() };
    check(short, 8_000, Signal::Waiting);
}

#[test]
fn a_pool_of_which_nobody_answers_is_not_scaled_to_zero() {
    let mut fleet = Fleet::new();
    fleet.join(1).unwrap();
    fleet.join(2).unwrap();
    let down = load(&fleet, second(1));
    assert!(down.is_active());
    check(down, 2_000, Signal::Unknown);
    // Nobody is there, and nothing is wanted.
    assert!(!Load::default().is_active());
    check(Load::default(), 0, Signal::Kv);
}

#[test]
fn a_worker_that_starts_asks_for_no_other() {
    let (mut fleet, ids) = fleet(2);
    fleet.join(9).unwrap();
    for &id in &ids {
        fleet.scraped(id, scraped(second(1), 9, 0, 700), &Lengths::new());
    }
    check(load(&fleet, second(1)), 2_000, Signal::Kv);
}

#[test]
fn requests_that_wait_before_the_workers_count() {
    let mut load = Load { members: 1, serving: 1, known: 1, ..Load::default() };
    load.add_queued(25);
    check(load, 2_500, Signal::Waiting);
}

#[test]
fn pools_do_not_see_each_other() {
    let (mut fleet, ids) = fleet(2);
    fleet.scraped(ids[0], scraped(second(1), 9, 90, 999), &Lengths::new());
    fleet.scraped(ids[1], scraped(second(1), 0, 0, 70), &Lengths::new());
    let (mut target, mut draft) = (Load::default(), Load::default());
    target.add(fleet.worker(ids[0]), second(1));
    draft.add(fleet.worker(ids[1]), second(1));
    check(target, 9_000, Signal::Waiting);
    check(draft, 100, Signal::Kv);
}

/// Says what is wanted at a second, and what is asked for then.
#[track_caller]
fn story(steps: &[(u64, u64, u64)]) {
    let mut hold = Hold::default();
    for &(at, wanted, expected) in steps {
        let held = hold.observe(wanted, Cooldown::default(), second(at));
        assert_eq!(held, expected, "{wanted} are wanted at {at} s");
    }
}

#[test]
fn a_rise_is_followed_at_once_to_its_end_and_the_next_one_waits() {
    story(&[(0, 1, 1), (1, 4, 4), (2, 9, 9), (5, 10, 10), (6, 12, 10), (60, 12, 10)]);
    story(&[(0, 1, 1), (1, 4, 4), (61, 12, 12), (65, 13, 13), (66, 14, 13), (121, 14, 14)]);
}

#[test]
fn a_fall_waits_until_less_was_wanted_for_long_and_falls_to_the_most_of_it() {
    story(&[
        (0, 9, 9),
        (10, 2, 9),
        (100, 5, 9),
        (309, 1, 9),
        (310, 1, 5),
        (311, 1, 5),
        (611, 1, 1),
    ]);
}

#[test]
fn a_peak_begins_the_wait_anew() {
    story(&[(0, 4, 4), (1, 1, 4), (299, 4, 4), (302, 1, 4), (601, 1, 4), (602, 1, 1)]);
}
