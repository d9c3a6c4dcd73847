//! Load policies: turns, fewest requests, two choices, canaries.

use super::*;

#[test]
fn an_idle_fleet_is_walked_through_in_turn() {
    let (mut fleet, _) = fleet(3);
    for expected in ["send 0", "send 1", "send 2", "send 0", "send 1"] {
        let attempt = send(&mut fleet, expected);
        end(&mut fleet, attempt, Ending::Answered);
    }
}

#[test]
fn one_that_was_never_asked_looks_no_slower_than_those_that_were() {
    let (mut fleet, _) = fleet(4);
    for expected in ["send 0", "send 1", "send 2", "send 3", "send 0"] {
        let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::Cost));
        assert_eq!(told(decision.choice), expected);
        let Choice::Send(worker) = decision.choice else { panic!("{decision:?}") };
        let attempt = fleet.start(worker, demand(100), Turn::First, LATER);
        end(&mut fleet, attempt, Ending::Answered);
        // A fast worker: its steps take a quarter of what is guessed where nothing was seen.
        fleet.decoded(worker, Tokens::new(100), Micros::new(100 * 5_000));
    }
}

#[test]
fn the_fewest_attempts_win_then_the_fewest_tokens() {
    let (mut fleet, ids) = fleet(3);
    let _long = fleet.start(ids[0], demand(9_000), Turn::First, LATER);
    let _short = fleet.start(ids[1], demand(10), Turn::First, LATER);
    let _two = [
        fleet.start(ids[2], demand(1), Turn::First, LATER),
        fleet.start(ids[2], demand(1), Turn::First, LATER),
    ];
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::LeastLoad));
    assert_eq!(told(decision.choice), "send 1");
}

#[test]
fn two_hundred_arrivals_between_two_scrapes_do_not_herd() {
    for policy in Policy::ALL {
        let (mut fleet, ids) = fleet(4);
        for &id in &ids {
            fleet.scraped(id, scrape(0, 1_000_000, LATER), &Lengths::new());
        }
        let mut kept = Vec::new();
        for dice in 0..200 {
            let ask = Ask { dice, ..ask(MODEL) };
            let decision = choose(&fleet, ask, &Tried::default(), &by(policy));
            let Choice::Send(id) = decision.choice else { panic!("{policy}: {decision:?}") };
            kept.push(fleet.start(id, demand(100), Turn::First, LATER));
        }
        let most = ids.iter().map(|&id| fleet.worker(id).requests()).max();
        assert!(most <= Some(55), "{policy} put {most:?} of 200 on one of four");
        for attempt in kept {
            end(&mut fleet, attempt, Ending::Answered);
        }
    }
}

#[test]
fn what_does_not_fit_waits_for_all_that_was_sent_before_it() {
    let (mut fleet, ids) = fleet(2);
    let prospect = Prospect { answers: 1, lengths: [100; 8], ..Prospect::default() };
    let mut kept = Vec::new();
    for (&id, prompt) in ids.iter().zip([900, 500]) {
        fleet.scraped(id, scrape(0, 1_000, LATER), &Lengths::new());
        // As many wait to be computed at both, and one of them has promised more than its cache holds.
        let cached = Tokens::new(prompt - 10);
        let one = Demand { cached, prospect, ..demand(prompt) };
        kept.extend((0..3).map(|_| fleet.start(id, one, Turn::First, LATER)));
    }
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::Cost));
    assert_eq!(told(decision.choice), "send 1");
    let crowded = |decision: &Decision| -> Vec<u64> {
        decision.candidates.iter().map(|one| one.cost.crowded.get()).collect()
    };
    let off = crowded(&decision);
    assert!(0 < off[1] && off[1] < off[0], "{off:?}");
    let settings = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &settings);
    assert_eq!(crowded(&decision), [0, 0], "admission knows better how long that takes");
    for attempt in kept {
        end(&mut fleet, attempt, Ending::Answered);
    }
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::Cost));
    assert_eq!(crowded(&decision), [0, 0], "what has ended makes room at once");
}

#[test]
fn a_canary_gets_its_share_and_sessions_keep_their_side() {
    let canary = Some(Canary { policy: Policy::RoundRobin, share_permille: 100 });
    let settings = RouteSettings { canary, ..RouteSettings::default() };
    let (fleet, _) = fleet(2);
    let mut on_trial = 0;
    for dice in 0..10_000 {
        let ask = Ask { dice, ..ask(MODEL) };
        let decision = choose(&fleet, ask, &Tried::default(), &settings);
        let expected = match decision.arm {
            Arm::Canary => Policy::RoundRobin,
            Arm::Baseline => Policy::Cost,
        };
        assert_eq!(decision.policy, expected);
        on_trial += u32::from(decision.arm == Arm::Canary);
    }
    assert!((900..1_100).contains(&on_trial), "{on_trial}");
    let arm = |dice| settings.canary.unwrap().arm(Some(5), dice);
    assert!((0..100).all(|dice| arm(dice) == arm(0)));
}
