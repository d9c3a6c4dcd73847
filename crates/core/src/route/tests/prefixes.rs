//! Prefixes and sessions: where a prompt that was seen before goes.

use super::*;

#[test]
fn a_prompt_comes_back_to_where_its_prefix_is() {
    for policy in [Policy::Cost, Policy::PrefixAffinity] {
        let (mut router, _) = router(4);
        let mut now = Instant::ORIGIN;
        let tenants: Vec<PrefixChain> = (0..4).map(|tenant| chain(tenant, 128)).collect();
        let mut homes = Vec::new();
        for tenant in &tenants {
            let placed = place(&mut router, tenant, policy, now);
            homes.push(placed.worker());
            now = now + SECOND;
            answer(&mut router, placed, now);
        }
        homes.sort_unstable();
        homes.dedup();
        assert_eq!(homes.len(), 4, "{policy}: an idle fleet is spread over");
        for tenant in [3, 1, 1, 2, 0, 3] {
            let before =
                router.explain(request(&tenants[tenant]), &by(policy), &Tried::default(), now);
            let best = before.candidates.iter().max_by_key(|one| one.cached).unwrap().worker;
            let placed = place(&mut router, &tenants[tenant], policy, now);
            assert_eq!(placed.worker(), best, "{policy}");
            assert!(placed.demand().cached > Tokens::new(1_500), "{policy}: {placed:?}");
            now = now + SECOND;
            answer(&mut router, placed, now);
        }
    }
}

#[test]
fn a_burst_of_equal_prompts_meets_before_any_is_remembered() {
    let (mut router, _) = router(4);
    let (hot, now) = (chain(1, 64), Instant::ORIGIN);
    let tried = Tried::default();
    let burst: Vec<Placed> = (0..3)
        .map(|_| {
            let turn = Attempted { tried: &tried, turn: Turn::First };
            router.place(request(&hot), &by(Policy::PrefixAffinity), turn, now).unwrap()
        })
        .collect();
    let home = burst[0].worker();
    assert!(burst.iter().all(|placed| placed.worker() == home), "{burst:?}");
    assert!(burst[2].demand().cached > Tokens::new(800), "{burst:?}");
    assert_eq!(router.prefixes().routed(home).get(), 0);
    let mut burst = burst.into_iter();
    let mut first = burst.next().unwrap();
    router.remember(&mut first, request(&hot).prompt, now);
    router.remember(&mut first, request(&hot).prompt, now);
    assert_eq!(router.prefixes().routed(home).get(), 64);
    router.leave(home);
    // Whoever left is neither noted nor remembered.
    for mut placed in burst.chain([first]) {
        router.remember(&mut placed, request(&hot).prompt, now);
        router.end(placed, Outcome::of(Ending::Abandoned), now);
    }
    assert_eq!(router.prefixes().routed(home).get(), 0);
    let alone = router.place(
        request(&chain(2, 64)),
        &by(Policy::Cost),
        Attempted { tried: &tried, turn: Turn::First },
        now,
    );
    router.end(alone.unwrap(), Outcome::of(Ending::Abandoned), now);
    let again = router.explain(request(&chain(2, 64)), &by(Policy::Cost), &tried, now);
    assert!(again.candidates.iter().all(|one| one.cached == Tokens::ZERO), "it never was sent");
}

#[test]
fn a_hot_prefix_is_copied_once_its_worker_is_busy_enough() {
    let (mut router, _) = router(2);
    let hot = chain(1, 64);
    let first = place(&mut router, &hot, Policy::Cost, Instant::ORIGIN);
    let home = first.worker();
    let mut now = Instant::ORIGIN + SECOND;
    answer(&mut router, first, now);
    let mut kept = Vec::new();
    let mut moved_after = None;
    for count in 0..400 {
        now = now + Micros::new(1);
        let placed = place(&mut router, &hot, Policy::Cost, now);
        if placed.worker() != home && moved_after.is_none() {
            moved_after = Some(count);
        }
        kept.push(placed);
    }
    let moved_after = moved_after.expect("the second worker helps");
    assert!(moved_after > 0, "not while the first is idle");
    for placed in kept {
        router.end(placed, Outcome::of(Ending::Abandoned), now);
    }
}

#[test]
fn a_session_stays_until_its_worker_has_too_much_or_leaves() {
    let (mut fleet, ids) = fleet(4);
    let sticky = RouteSettings { sticky: Some(Sticky::default()), ..RouteSettings::default() };
    let of = |fleet: &Fleet, session: u64| {
        let ask = Ask { session: Some(session), ..ask(MODEL) };
        let decision = choose(fleet, ask, &Tried::default(), &sticky);
        assert_eq!(decision.by, DecidedBy::Session);
        decision.chosen().unwrap().worker
    };
    let before: Vec<WorkerId> = (0..100).map(|session| of(&fleet, session)).collect();
    for &id in &ids {
        let share = before.iter().filter(|&&home| home == id).count();
        assert!((10..=40).contains(&share), "{share} of 100 sessions on one of four");
    }
    let home = of(&fleet, 42);
    let kept: Vec<Attempt> =
        (0..10).map(|_| fleet.start(home, demand(1), Turn::First, LATER)).collect();
    assert_ne!(of(&fleet, 42), home, "ten requests there and none elsewhere");
    for attempt in kept {
        end(&mut fleet, attempt, Ending::Answered);
    }
    assert_eq!(of(&fleet, 42), home);
    fleet.drain(home);
    let after: Vec<WorkerId> = (0..100).map(|session| of(&fleet, session)).collect();
    for (old, new) in before.iter().zip(&after) {
        assert!(old == new || *old == home, "only the sessions of who left move");
    }
}

#[test]
fn an_eviction_prevented_is_one_that_another_choice_would_have_caused() {
    let (mut fleet, ids) = fleet(2);
    fleet.scraped(ids[0], scrape(950, 1_000, LATER), &Lengths::new());
    fleet.scraped(ids[1], scrape(0, 1_000, LATER), &Lengths::new());
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::Cost));
    assert_eq!(told(decision.choice), "send 1");
    assert!(decision.eviction_prevented);
    fleet.scraped(ids[0], scrape(100, 1_000, LATER), &Lengths::new());
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::Cost));
    assert!(!decision.eviction_prevented);
    let whole = Ask { prompt: Tokens::new(1_001), ..ask(MODEL) };
    let decision = choose(&fleet, whole, &Tried::default(), &by(Policy::Cost));
    assert_eq!(told(decision.choice), "no room for 1001 in 1000");
    // An estimate is no reason to refuse, unless what is sure of it is.
    let guessed = Ask { count: Count::Estimated { least: Tokens::new(1_000) }, ..whole };
    let decision = choose(&fleet, guessed, &Tried::default(), &by(Policy::Cost));
    assert!(matches!(decision.choice, Choice::Send(_)), "{decision:?}");
    let sure = Ask { count: Count::Estimated { least: Tokens::new(1_001) }, ..whole };
    let decision = choose(&fleet, sure, &Tried::default(), &by(Policy::Cost));
    assert_eq!(told(decision.choice), "no room for 1001 in 1000");
}
