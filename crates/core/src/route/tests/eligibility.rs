//! Eligibility: who is passed over, tried again, held back while warming.

use super::*;
use crate::breaker::BreakerSettings;

const SLOW: Micros = crate::fleet::SLOW_START;

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

/// Fails attempts on `id` until its breaker opens.
fn open(fleet: &mut Fleet, id: WorkerId) {
    for _ in 0..5 {
        let attempt = fleet.start(id, demand(1), Turn::First, LATER);
        fleet.end(attempt, Ending::Failed(Failure::Faulty), LATER);
    }
    assert!(!fleet.worker(id).breaker().is_closed());
}

#[test]
fn a_worker_that_is_out_is_passed_over_and_gets_one_trial_in_time() {
    let (mut fleet, ids) = fleet(3);
    open(&mut fleet, ids[0]);
    let by = by(Policy::LeastLoad);
    let mut decision = Decision::default();
    let ask = ask(MODEL);
    let later = LATER + Micros::new(12_000_001);
    decide(&fleet, ask, &Tried::default(), &by, LATER, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    assert_eq!(
        (decision.candidates[0].reason, decision.ejections),
        (Reason::Open, Ejections::Kept)
    );
    // One that has failed already is no trial.
    let mut tried = Tried::default();
    tried.add(ids[2]);
    decide(&fleet, ask, &tried, &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    decide(&fleet, ask, &Tried::default(), &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 0");
    let chosen = decision.chosen().expect("it is sent");
    let scored = decision.score(chosen);
    assert_eq!((decision.by, scored), (DecidedBy::Trial, None), "nobody asked the policy");
    let trial = fleet.start(ids[0], demand(1), Turn::First, later);
    decide(&fleet, ask, &Tried::default(), &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    assert_eq!(decision.candidates[0].reason, Reason::Probing);
    fleet.end(trial, Ending::Answered, later);
    assert!(fleet.worker(ids[0]).breaker().is_closed());
}

#[test]
fn a_lone_worker_that_is_not_asked_in_panic_gets_its_trial_in_time() {
    let (mut fleet, ids) = fleet(1);
    fleet.set_breakers(BreakerSettings { panic_permille: 0, ..BreakerSettings::default() });
    open(&mut fleet, ids[0]);
    check(&fleet, &Tried::default(), "none up");
    let later = LATER + Micros::new(12_000_001);
    for policy in [Policy::LeastLoad, Policy::Cost] {
        let mut decision = Decision::default();
        decide(&fleet, ask(MODEL), &Tried::default(), &by(policy), later, &mut decision);
        assert_eq!(told(decision.choice), "send 0", "{policy}");
        assert_eq!(decision.by, DecidedBy::Trial, "{policy}");
    }
    let trial = fleet.start(ids[0], demand(1), Turn::First, later);
    fleet.end(trial, Ending::Answered, later);
    assert!(fleet.worker(ids[0]).breaker().is_closed());
}

#[test]
fn one_that_asks_to_be_left_alone_while_it_is_tried_is_left_alone() {
    let (mut fleet, ids) = fleet(3);
    open(&mut fleet, ids[0]);
    let by = by(Policy::LeastLoad);
    let later = LATER + Micros::new(12_000_001);
    let mut decision = Decision::default();
    decide(&fleet, ask(MODEL), &Tried::default(), &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 0");
    let trial = fleet.start(ids[0], demand(1), Turn::First, later);
    fleet.end(trial, Ending::Failed(Failure::Saturated), later);
    decide(&fleet, ask(MODEL), &Tried::default(), &by, later, &mut decision);
    assert_ne!(told(decision.choice), "send 0", "it backs off");
    let after = later + Micros::new(10_000_000);
    decide(&fleet, ask(MODEL), &Tried::default(), &by, after, &mut decision);
    assert_eq!(told(decision.choice), "send 0", "and is tried again");
}

#[test]
fn when_too_few_can_be_asked_those_that_are_out_are_asked_as_well() {
    let (mut fleet, ids) = fleet(3);
    open(&mut fleet, ids[0]);
    fleet.probed(ids[1], Probe::Unreachable, LATER);
    let attempt = fleet.start(ids[2], demand(1), Turn::First, LATER);
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::LeastLoad));
    assert_eq!(told(decision.choice), "send 0");
    assert_eq!(decision.ejections, Ejections::Waived);
    assert_eq!(decision.candidates[1].reason, Reason::Down, "it would be of no use");
    fleet.end(attempt, Ending::Abandoned, LATER);
}

#[test]
fn a_lonely_worker_is_asked_even_when_it_is_out() {
    let (mut fleet, ids) = fleet(1);
    open(&mut fleet, ids[0]);
    check(&fleet, &Tried::default(), "send 0");
}

#[test]
fn whoever_is_out_is_the_last_resort_of_a_request_that_all_others_failed() {
    let (mut fleet, ids) = fleet(2);
    open(&mut fleet, ids[0]);
    let mut tried = Tried::default();
    tried.add(ids[1]);
    check(&fleet, &tried, "send 0");
}

#[test]
fn unknown_differs_from_down() {
    let (mut fleet, ids) = fleet(1);
    fleet.probed(ids[0], Probe::Unreachable, Instant::ORIGIN);
    let decision = choose(&fleet, ask("other"), &Tried::default(), &by(Policy::Cost));
    assert_eq!(told(decision.choice), "unknown model");
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
        verdicts.push(retry(&fleet, settings, MODEL, &tried, LATER));
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
    // Who failed the last one is nobody's free escape.
    let failed = fleet.start(ids[1], demand(1), Turn::First, LATER);
    end(&mut fleet, failed, Ending::Failed(Failure::Faulty));
    let mut firsts = Vec::new();
    for _ in 0..50 {
        firsts.push(fleet.start(ids[0], demand(1), Turn::First, LATER));
    }
    let mut retries = Vec::new();
    while retry(&fleet, settings, MODEL, &tried, LATER) == Verdict::Elsewhere {
        retries.push(fleet.start(ids[1], demand(1), Turn::Again, LATER));
        assert!(retries.len() < 100, "the budget never ends");
    }
    // A fifth of the attempts in flight, themselves included, and three.
    assert_eq!(retries.len(), 16);
    let verdict = |fleet: &Fleet| retry(fleet, settings, MODEL, &tried, LATER);
    assert_eq!(verdict(&fleet), Verdict::GiveUp(GiveUp::Budget));
    end(&mut fleet, retries.pop().unwrap(), Ending::Failed(Failure::Broken));
    assert_eq!(verdict(&fleet), Verdict::Elsewhere);
}

#[test]
fn a_worker_that_came_up_gets_a_growing_share() {
    let (mut fleet, ids) = fleet(2);
    let warm = Instant::ORIGIN + SLOW;
    fleet.probed(ids[1], Probe::Unreachable, warm);
    fleet.probed(ids[1], Probe::Ready(&[MODEL.to_string()]), warm);
    let _busy: Vec<Attempt> =
        (0..40).map(|_| fleet.start(ids[0], demand(100), Turn::First, warm)).collect();
    let mut cold = Vec::new();
    let mut taken_by = |fleet: &mut Fleet, now: Instant| {
        let mut decision = Decision::default();
        loop {
            let settings = by(Policy::LeastLoad);
            decide(fleet, ask(MODEL), &Tried::default(), &settings, now, &mut decision);
            if decision.choice != Choice::Send(ids[1]) {
                return fleet.worker(ids[1]).requests();
            }
            cold.push(fleet.start(ids[1], demand(100), Turn::First, now));
        }
    };
    assert_eq!(taken_by(&mut fleet, warm), 4, "a tenth at first");
    let half = warm + Micros::new(SLOW.get() / 2);
    assert_eq!(taken_by(&mut fleet, half), 20);
    assert_eq!(taken_by(&mut fleet, warm + SLOW), 40);
}
