//! Policies of other routers: each by the documents that describe it.

use super::*;

/// A prompt of 6,400 tokens that worker 0 has answered before, and the same of nobody.
fn known_at_the_first(count: u64) -> (Router, Vec<WorkerId>, PrefixChain) {
    let (mut router, ids) = router(count);
    let prompt = chain(1, 400);
    let placed = place(&mut router, &prompt, Policy::LeastLoad, LATER);
    assert_eq!(placed.worker(), ids[0]);
    answer(&mut router, placed, LATER);
    (router, ids, prompt)
}

fn sent_to(router: &mut Router, prompt: &PrefixChain, policy: Policy, now: Instant) -> WorkerId {
    let placed = place(router, prompt, policy, now);
    let worker = placed.worker();
    answer(router, placed, now);
    worker
}

#[test]
fn each_goes_where_the_prefix_is_while_the_load_is_even() {
    for policy in [Policy::CacheAware, Policy::Dynamo, Policy::LlmD] {
        let (mut router, ids, prompt) = known_at_the_first(4);
        for _ in 0..8 {
            let later = LATER + SECOND;
            assert_eq!(sent_to(&mut router, &prompt, policy, later), ids[0], "{policy}");
        }
    }
}

#[test]
fn cache_aware_leaves_a_prefix_when_64_more_and_half_as_many_again_are_there() {
    let (mut router, ids, prompt) = known_at_the_first(2);
    let mut held: Vec<Placed> = Vec::new();
    for _ in 0..65 {
        let placed = place(&mut router, &prompt, Policy::CacheAware, LATER);
        assert_eq!(placed.worker(), ids[0], "{} are there", held.len());
        held.push(placed);
    }
    let placed = place(&mut router, &prompt, Policy::CacheAware, LATER);
    assert_eq!(placed.worker(), ids[1]);
}

#[test]
fn dynamo_leaves_a_prefix_when_the_running_cache_is_more_than_the_prompt() {
    let (mut router, ids, prompt) = known_at_the_first(2);
    // What runs there holds 6,400 tokens; the prompt anew elsewhere costs as much.
    let first = place(&mut router, &prompt, Policy::Dynamo, LATER);
    let second = place(&mut router, &prompt, Policy::Dynamo, LATER);
    assert_eq!((first.worker(), second.worker()), (ids[0], ids[1]));
}

#[test]
fn llm_d_weighs_a_prefix_twice_against_the_queue_and_the_cache() {
    let (mut router, ids, prompt) = known_at_the_first(2);
    let scraped = |waiting: u32, used: u16| Scraped { waiting, ..scrape(used, 100_000, LATER) };
    // Of 6,400 tokens the estimate sees 4,096, and all of those match: 2 against 1 and 0.6.
    router.scraped(ids[0], scraped(9, 800));
    router.scraped(ids[1], scraped(0, 200));
    assert_eq!(sent_to(&mut router, &prompt, Policy::LlmD, LATER), ids[0]);
    // Against 1 and 1 there is nothing left of it.
    router.scraped(ids[0], scraped(9, 1_000));
    router.scraped(ids[1], scraped(0, 0));
    let draws = (0..16).map(|dice| {
        let request = Request { dice, ..request(&prompt) };
        let first = Attempted { tried: &Tried::default(), turn: Turn::First };
        let placed = router.place(request, &by(Policy::LlmD), first, LATER).unwrap();
        let worker = placed.worker();
        answer(&mut router, placed, LATER);
        worker
    });
    let first = draws.filter(|&worker| worker == ids[0]).count();
    assert!((1..16).contains(&first), "equals are drawn from: {first} of 16");
}

#[test]
fn random_gives_each_worker_its_share() {
    let (fleet, ids) = fleet(4);
    let mut counts = [0; 4];
    for dice in 0..4_000 {
        let ask = Ask { dice: crate::hash_mix::mix(dice, 1), ..ask(MODEL) };
        let Choice::Send(id) = choose(&fleet, ask, &Tried::default(), &by(Policy::Random)).choice
        else {
            panic!("nowhere to send")
        };
        counts[ids.iter().position(|&one| one == id).unwrap()] += 1;
    }
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}
