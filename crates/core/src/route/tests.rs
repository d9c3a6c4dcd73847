//! Where requests go: fleets of a few workers, decisions as text.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId, Tokens};

use super::*;
use crate::admit::{AdmitSettings, Portion, Priority, Prospect, Tenant};
use crate::estimate::{Kind, Lengths};
use crate::fleet::{Attempt, Demand, Ending, Failure, FirstToken, Fleet, Probe, Scraped, Turn};
use crate::prefix::{Chunking, PrefixChain, PrefixLimits};

const MODEL: &str = "m";
const SECOND: Micros = Micros::new(1_000_000);

/// Late enough that nobody is warming up any more.
const LATER: Instant = Instant::ORIGIN;

/// `count` workers, all up and serving [`MODEL`].
fn fleet(count: u64) -> (Fleet, Vec<WorkerId>) {
    let mut fleet = Fleet::new();
    let ids: Vec<WorkerId> = (0..count).map(|tag| fleet.join(tag).unwrap()).collect();
    for &id in &ids {
        fleet.probed(id, Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    }
    (fleet, ids)
}

fn ask(model: &str) -> Ask<'_> {
    Ask {
        model,
        prompt: Tokens::new(100),
        count: Count::Counted,
        completion: Tokens::ZERO,
        priority: Priority::Default,
        portion: Portion::Within,
        prospect: Prospect::default(),
        session: None,
        dice: 7,
    }
}

fn demand(tokens: u32) -> Demand {
    Demand { prompt: Tokens::new(tokens), ..Demand::default() }
}

fn told(choice: Choice) -> String {
    match choice {
        Choice::Send(id) => format!("send {}", id.index()),
        Choice::UnknownModel => "unknown model".to_string(),
        Choice::NoneUp => "none up".to_string(),
        Choice::NoneLeft => "none left".to_string(),
        Choice::NoRoom { asked, free, .. } => format!("no room for {asked} in {free}"),
        Choice::Saturated { asked, .. } => format!("saturated for {asked}"),
    }
}

fn by(policy: Policy) -> RouteSettings {
    RouteSettings { policy, admission: AdmitSettings::off(), ..RouteSettings::default() }
}

fn choose(fleet: &Fleet, ask: Ask<'_>, tried: &Tried, settings: &RouteSettings) -> Decision {
    let mut decision = Decision::default();
    decide((fleet, None), ask, tried, settings, LATER, &mut decision);
    decision
}

#[track_caller]
fn check(fleet: &Fleet, tried: &Tried, expected: &str) {
    for policy in [Policy::LeastLoad, Policy::Cost] {
        let decision = choose(fleet, ask(MODEL), tried, &by(policy));
        assert_eq!(told(decision.choice), expected, "{policy}: {decision:?}");
    }
}

/// Chooses, starts there, and hands the receipt back.
#[track_caller]
fn send(fleet: &mut Fleet, expected: &str) -> Attempt {
    check(fleet, &Tried::default(), expected);
    let decision = choose(fleet, ask(MODEL), &Tried::default(), &by(Policy::LeastLoad));
    let Choice::Send(id) = decision.choice else { panic!("nowhere to send") };
    fleet.start(id, demand(100), Turn::First, Instant::ORIGIN)
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
    decide((&fleet, None), ask, &Tried::default(), &by, LATER, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    assert_eq!(
        (decision.candidates[0].reason, decision.ejections),
        (Reason::Open, Ejections::Kept)
    );
    // One that has failed already is no trial.
    let mut tried = Tried::default();
    tried.add(ids[2]);
    decide((&fleet, None), ask, &tried, &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    decide((&fleet, None), ask, &Tried::default(), &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 0");
    let trial = fleet.start(ids[0], demand(1), Turn::First, later);
    decide((&fleet, None), ask, &Tried::default(), &by, later, &mut decision);
    assert_eq!(told(decision.choice), "send 1");
    assert_eq!(decision.candidates[0].reason, Reason::Probing);
    fleet.end(trial, Ending::Answered, later);
    assert!(fleet.worker(ids[0]).breaker().is_closed());
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
        verdicts.push(retry(&fleet, settings, (MODEL, &tried), LATER));
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
    while retry(&fleet, settings, (MODEL, &tried), LATER) == Verdict::Elsewhere {
        retries.push(fleet.start(ids[1], demand(1), Turn::Again, LATER));
        assert!(retries.len() < 100, "the budget never ends");
    }
    // A fifth of the attempts in flight, themselves included, and three.
    assert_eq!(retries.len(), 16);
    let verdict = |fleet: &Fleet| retry(fleet, settings, (MODEL, &tried), LATER);
    assert_eq!(verdict(&fleet), Verdict::GiveUp(GiveUp::Budget));
    end(&mut fleet, retries.pop().unwrap(), Ending::Failed(Failure::Broken));
    assert_eq!(verdict(&fleet), Verdict::Elsewhere);
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

fn scrape(kv_use_permille: u16, capacity: u32, at: Instant) -> Scraped {
    Scraped {
        at,
        running: 0,
        waiting: 0,
        kv_use_permille: Some(kv_use_permille),
        kv_capacity: Some(Tokens::new(capacity)),
        block_size: None,
        preemptions: None,
    }
}

#[test]
fn fit_score_is_the_write_ups_formula() {
    let (mut fleet, ids) = fleet(3);
    fleet.scraped(ids[0], scrape(500, 10_000, LATER), &Lengths::new());
    fleet.scraped(ids[1], scrape(400, 10_000, LATER), &Lengths::new());
    fleet.scraped(ids[2], scrape(0, 50, LATER), &Lengths::new());
    // The second has 6,000 tokens free, and was sent 2,500 since it said so.
    let held = fleet.start(ids[1], demand(2_500), Turn::First, LATER);
    let decision = choose(&fleet, ask(MODEL), &Tried::default(), &by(Policy::FitScore));
    let scores: Vec<u64> = decision.candidates.iter().map(|one| one.score).collect();
    // 0.5 * 0.8 + 0.5 * 0.2, and 0.6 * 0.8 + 0.35 * 0.2.
    assert_eq!(scores[..2], [500_000, 550_000]);
    assert_eq!(decision.candidates[2].reason, Reason::NoRoom, "fifty tokens for a hundred");
    assert_eq!(told(decision.choice), "send 1");
    // Long prompts weigh free cache at 0.95: 0.5 against 0.5875.
    let long = Ask { prompt: Tokens::new(2_049), ..ask(MODEL) };
    let decision = choose(&fleet, long, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(decision.candidates[1].score, 587_500);
    assert_eq!(told(decision.choice), "send 1");
    let whole = Ask { prompt: Tokens::new(10_001), ..ask(MODEL) };
    let decision = choose(&fleet, whole, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(told(decision.choice), "no room for 10001 in 5000");
    end(&mut fleet, held, Ending::Answered);
}

/// What `fit-score` makes of a prompt of so many tokens on one worker that said this of itself, and
/// was sent so much since: the score in thousandths, or what is free.
#[track_caller]
fn check_fit((use_permille, capacity): (u16, u32), sent: u32, prompt: u32, expected: &str) {
    let (mut fleet, ids) = fleet(1);
    let capacity = (0 < capacity).then_some(Tokens::new(capacity));
    let said = Scraped { kv_capacity: capacity, ..scrape(use_permille, 1, LATER) };
    fleet.scraped(ids[0], said, &Lengths::new());
    let held = (0 < sent).then(|| fleet.start(ids[0], demand(sent), Turn::First, LATER));
    let asked = Ask { prompt: Tokens::new(prompt), ..ask(MODEL) };
    let decision = choose(&fleet, asked, &Tried::default(), &by(Policy::FitScore));
    let shown = match decision.choice {
        Choice::Send(_) => format!("{}", (decision.candidates[0].score + 500) / 1_000),
        Choice::NoRoom { free, .. } => format!("{free} free"),
        other => told(other),
    };
    assert_eq!(shown, expected, "{decision:?}");
    if let Some(held) = held {
        end(&mut fleet, held, Ending::Answered);
    }
}

#[test]
fn c2_the_budget_is_what_the_worker_reports_less_what_was_sent_since() {
    // Full but for 410 of 8,192: it is skipped.
    check_fit((950, 8_192), 0, 3_008, "410 free");
    check_fit((950, 8_192), 0, 410, "50");
    check_fit((500, 8_192), 0, 3_008, "500");
    check_fit((500, 8_192), 2_000, 1_008, "451");
    check_fit((500, 8_192), 2_000, 3_008, "2096 free");
    // It says how much is in use, and not of how much: 8,192 as the write-up has it.
    check_fit((950, 0), 0, 3_008, "410 free");
    check_fit((250, 0), 0, 2_048, "750");
    check_fit((250, 0), 3_072, 2_048, "675");
    check_fit((250, 0), 3_072, 2_049, "731");
}

#[test]
fn c2_a_budget_that_is_set_counts_whatever_the_worker_could_hold() {
    let (mut fleet, ids) = fleet(1);
    fleet.scraped(ids[0], scrape(100, 400_000, LATER), &Lengths::new());
    let set = FitScore { token_budget: Some(8_192), ..FitScore::default() };
    let settings = RouteSettings { fit_score: set, ..by(Policy::FitScore) };
    let asked = Ask { prompt: Tokens::new(9_000), ..ask(MODEL) };
    let decision = choose(&fleet, asked, &Tried::default(), &settings);
    assert_eq!(told(decision.choice), "no room for 9000 in 7373");
    let decision = choose(&fleet, asked, &Tried::default(), &by(Policy::FitScore));
    assert_eq!(told(decision.choice), "send 0");
}

/// What becomes of a prompt of text on one worker with room for 8,192 tokens, under the settings as they
/// come.
#[track_caller]
fn check_text(policy: Policy, (bytes, words): (u64, u64), expected: &str) {
    let (mut router, ids) = router(1);
    router.scraped(ids[0], scrape(0, 8_192, LATER));
    let prompt = Prompt::Text { bytes, words, chain: &[], chunk: 512.try_into().unwrap() };
    let short = chain(1, 1);
    let asked = Request { prompt, ..request(&short) };
    let settings = RouteSettings { policy, ..RouteSettings::default() };
    let placed = router.place(asked, &settings, (&Tried::default(), Turn::First), LATER);
    let told = match &placed {
        Ok(_) => "sent".to_string(),
        Err(Choice::NoRoom { asked, most, .. }) if most < asked => format!("{asked} over {most}"),
        Err(choice) => told(*choice),
    };
    assert_eq!(told, expected, "{policy}");
    if let Ok(placed) = placed {
        router.end(placed, Outcome::of(Ending::Answered), LATER);
    }
}

#[test]
fn c3_text_that_no_cache_could_hold_is_refused_at_once_and_pictures_are_sent() {
    for policy in [Policy::Cost, Policy::LeastLoad] {
        check_text(policy, (32_000, 32_000), "sent");
        // Twice the usual bytes to a token, and it would fit.
        check_text(policy, (64_000, 64_000), "sent");
        check_text(policy, (68_000, 68_000), "17000 over 8192");
        check_text(policy, (680_000, 0), "sent");
    }
    check_text(Policy::FitScore, (32_000, 32_000), "sent");
    check_text(Policy::FitScore, (36_000, 36_000), "9000 over 8192");
    check_text(Policy::FitScore, (36_000, 0), "sent");
}

#[test]
fn c6_the_fit_score_that_is_told_is_the_one_that_decided() {
    let (mut router, ids) = router(1);
    router.scraped(ids[0], scrape(400, 8_192, LATER));
    let prompt = chain(1, 20);
    let settings = by(Policy::FitScore);
    let first = (&Tried::default(), Turn::First);
    let placed = router.place(request(&prompt), &settings, first, LATER).unwrap();
    // 0.6 * 0.8 + 0.6 * 0.2; after booking 320 tokens it would be 0.592.
    assert_eq!(router.decision().fit_permille, Some(600));
    router.end(placed, Outcome::of(Ending::Answered), LATER);
}

/// A router over `count` workers that have said nothing of their load.
fn router(count: u64) -> (Router, Vec<WorkerId>) {
    let mut router = Router::new(PrefixLimits::default());
    let ids: Vec<WorkerId> = (0..count).map(|tag| router.join(tag).unwrap()).collect();
    for &id in &ids {
        router.probed(id, Probe::Ready(&[MODEL.to_string()]), Instant::ORIGIN);
    }
    (router, ids)
}

fn block() -> BlockSize {
    BlockSize::new(16).unwrap()
}

fn chain(tenant: u32, blocks: u32) -> PrefixChain {
    let mut chain = PrefixChain::new(CacheSalt::default(), Chunking::Tokens(block()));
    let tokens: Vec<TokenId> = (0..blocks * 16).map(|place| TokenId(tenant * 7 + place)).collect();
    chain.push_tokens(&tokens);
    chain
}

fn request(chain: &PrefixChain) -> Request<'_> {
    let tokens = Tokens::new(u32::try_from(chain.keys().len()).unwrap() * 16);
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens, chain: chain.keys(), block: block() },
        limit: Some(1),
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: 0,
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

fn place(router: &mut Router, chain: &PrefixChain, policy: Policy, now: Instant) -> Placed {
    let tried = (&Tried::default(), Turn::First);
    let mut placed = router.place(request(chain), &by(policy), tried, now).unwrap();
    router.remember(&mut placed, request(chain).prompt, now);
    placed
}

fn answer(router: &mut Router, mut placed: Placed, now: Instant) {
    router.first_token(&mut placed, now);
    router.end(placed, Outcome::of(Ending::Answered), now);
}

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
            let turn = (&tried, Turn::First);
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
    let alone = router.place(request(&chain(2, 64)), &by(Policy::Cost), (&tried, Turn::First), now);
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
        assert!(decision.stuck);
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
            decide((fleet, None), ask(MODEL), &Tried::default(), &settings, now, &mut decision);
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

const SLOW: Micros = crate::fleet::SLOW_START;

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
