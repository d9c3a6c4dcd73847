//! Where requests go: fleets of a few workers, decisions as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use overdraft_units::{Instant, Tokens};

use super::*;
use crate::fleet::{Attempt, Ending, Failure, Probe, Turn};

const MODEL: &str = "m";

/// `count` workers, all up and serving [`MODEL`].
fn fleet(count: usize) -> (Fleet, Vec<WorkerId>) {
    let mut fleet = Fleet::new();
    let ids: Vec<WorkerId> = (0..count).map(|_| fleet.join().unwrap()).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    }
    (fleet, ids)
}

fn ask(model: &str) -> Ask<'_> {
    Ask { model, tokens: Tokens::new(100) }
}

fn told(choice: Choice) -> String {
    match choice {
        Choice::Send(id) => format!("send {}", id.index()),
        Choice::UnknownModel => "unknown model".to_string(),
        Choice::NoneUp => "none up".to_string(),
        Choice::NoneLeft => "none left".to_string(),
    }
}

#[track_caller]
fn check(fleet: &Fleet, tried: &Tried, expected: &str) {
    assert_eq!(told(least_load(fleet, ask(MODEL), tried)), expected);
}

/// Chooses, starts there, and hands the receipt back.
fn send(fleet: &mut Fleet, expected: &str) -> Attempt {
    let choice = least_load(fleet, ask(MODEL), &Tried::default());
    assert_eq!(told(choice), expected);
    let Choice::Send(id) = choice else { panic!("nowhere to send") };
    fleet.start(id, Tokens::new(100), Turn::First)
}

fn end(fleet: &mut Fleet, attempt: Attempt, ending: Ending) {
    fleet.end(attempt, ending, Instant::ORIGIN);
}

#[test]
fn an_idle_fleet_is_walked_through_in_turn() {
    let (mut fleet, _) = fleet(3);
    for expected in ["send 0", "send 1", "send 2", "send 0", "send 1"] {
        let attempt = send(&mut fleet, expected);
        end(&mut fleet, attempt, Ending::Answered);
    }
}

#[test]
fn the_fewest_attempts_win_then_the_fewest_tokens() {
    let (mut fleet, ids) = fleet(3);
    let _long = fleet.start(ids[0], Tokens::new(9_000), Turn::First);
    let _short = fleet.start(ids[1], Tokens::new(10), Turn::First);
    let _two = [
        fleet.start(ids[2], Tokens::new(1), Turn::First),
        fleet.start(ids[2], Tokens::new(1), Turn::First),
    ];
    check(&fleet, &Tried::default(), "send 1");
}

#[test]
fn a_worker_that_failed_this_request_is_passed_over() {
    let (fleet, ids) = fleet(2);
    let mut tried = Tried::default();
    tried.add(ids[0]);
    check(&fleet, &tried, "send 1");
    tried.add(ids[1]);
    check(&fleet, &tried, "none left");
}

#[test]
fn a_draining_worker_is_passed_over_until_it_rejoins() {
    let (mut fleet, ids) = fleet(1);
    fleet.drain(ids[0]);
    check(&fleet, &Tried::default(), "none up");
    fleet.rejoin(ids[0]);
    check(&fleet, &Tried::default(), "send 0");
}

#[test]
fn a_worker_that_is_gone_is_never_asked_and_a_slow_one_only_when_nobody_is_up() {
    let (mut fleet, ids) = fleet(2);
    fleet.probed(ids[0], Probe::Unreachable, Instant::ORIGIN);
    for _ in 0..crate::fleet::MISSED_PROBES_MAX {
        fleet.probed(ids[1], Probe::Silent, Instant::ORIGIN);
    }
    check(&fleet, &Tried::default(), "send 1");
    fleet.probed(ids[0], Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    check(&fleet, &Tried::default(), "send 0");
    fleet.probed(ids[0], Probe::Unreachable, Instant::ORIGIN);
    fleet.probed(ids[1], Probe::Unready, Instant::ORIGIN);
    check(&fleet, &Tried::default(), "none up");
}

#[test]
fn unknown_differs_from_down() {
    let (mut fleet, ids) = fleet(1);
    fleet.probed(ids[0], Probe::Unreachable, Instant::ORIGIN);
    assert_eq!(told(least_load(&fleet, ask("other"), &Tried::default())), "unknown model");
    check(&fleet, &Tried::default(), "none up");
}

#[test]
fn a_request_has_only_so_many_attempts() {
    let (fleet, ids) = fleet(3);
    let mut tried = Tried::default();
    let settings = RetrySettings::default();
    let mut verdicts = Vec::new();
    for &id in &ids {
        tried.add(id);
        verdicts.push(retry(&fleet, settings, &tried));
    }
    assert_eq!(
        verdicts,
        [Verdict::Elsewhere, Verdict::Elsewhere, Verdict::GiveUp(GiveUp::Attempts)]
    );
}

#[test]
fn retries_in_flight_stay_within_a_share_of_the_load() {
    let (mut fleet, ids) = fleet(2);
    let settings = RetrySettings::default();
    let mut tried = Tried::default();
    tried.add(ids[0]);
    let mut firsts = Vec::new();
    for _ in 0..50 {
        firsts.push(fleet.start(ids[0], Tokens::new(1), Turn::First));
    }
    let mut retries = Vec::new();
    while retry(&fleet, settings, &tried) == Verdict::Elsewhere {
        retries.push(fleet.start(ids[1], Tokens::new(1), Turn::Again));
        assert!(retries.len() < 100, "the budget never ends");
    }
    // A fifth of the attempts in flight, themselves included, and three.
    assert_eq!(retries.len(), 16);
    assert_eq!(retry(&fleet, settings, &tried), Verdict::GiveUp(GiveUp::Budget));
    end(&mut fleet, retries.pop().unwrap(), Ending::Failed(Failure::Broken));
    assert_eq!(retry(&fleet, settings, &tried), Verdict::Elsewhere);
}
