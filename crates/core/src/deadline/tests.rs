//! Limits of time on workers whose speed is known.

use alloc::string::String;
use alloc::vec::Vec;

use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::admit::{Priority, Tenant};
use crate::estimate::{Kind, Media};
use crate::fleet::{Demand, Ending, FirstToken, Fleet, Probe, Progress, Scraped, Turn, WorkerId};
use crate::prefix::PrefixLimits;
use crate::route::{Attempted, Outcome, Placed, Prompt, Request, RouteSettings, Router, Tried};

const SECOND: u64 = 1_000_000;

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Micros::new(seconds * SECOND)
}

/// A prompt of so many tokens, in text.
fn request(tokens: u64, limit: Option<u32>) -> Request<'static> {
    Request {
        model: "m",
        prompt: Prompt::Text {
            bytes: 4 * tokens,
            media: Media::default(),
            words: 0,
            chain: &[],
            chunk: core::num::NonZeroU32::MIN,
        },
        limit,
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: 7,
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

/// A router before one worker.
fn one() -> (Router, WorkerId) {
    let mut router = Router::new(PrefixLimits::default());
    let worker = router.join(1).unwrap();
    let models: Vec<String> = ["m".into()].into();
    router.probed(worker, Probe::Ready(&models), at(0));
    (router, worker)
}

fn send(router: &mut Router, request: Request<'_>, now: Instant) -> Placed {
    let attempted = Attempted { tried: &Tried::default(), turn: Turn::First };
    let settings =
        RouteSettings { admission: crate::admit::AdmitSettings::off(), ..RouteSettings::default() };
    router.place(request, &settings, attempted, now).unwrap()
}

/// A worker that has computed prompts at `pace` tokens a second, and answers at `step` microseconds a token.
fn measured(pace: u64, step: u64) -> (Router, WorkerId, u64) {
    let (mut router, worker) = one();
    let mut now = 0;
    for _ in 0..4 {
        let mut placed = send(&mut router, request(10 * pace.max(7), None), at(now));
        now += 10;
        router.first_token(&mut placed, at(now));
        let took = 100 * step / SECOND;
        now += took.max(1);
        let outcome = Outcome {
            completion: Some(Tokens::new(u32::try_from(took.max(1) * SECOND / step).unwrap() + 1)),
            ..Outcome::of(Ending::Answered)
        };
        router.end(placed, outcome, at(now));
    }
    (router, worker, now)
}

fn limits(placed: &Placed) -> Limits {
    Limits::of(DeadlineSettings::default(), placed.prediction())
}

#[test]
fn what_is_set_holds_whatever_was_measured() {
    let (mut router, _, now) = measured(10, SECOND);
    let placed = send(&mut router, request(100_000, Some(50_000)), at(now));
    let settings = DeadlineSettings {
        first_token: Patience::Fixed(Micros::new(7)),
        stall: Patience::Fixed(Micros::new(8)),
        total: Patience::Fixed(Micros::new(9)),
    };
    let Limits { first_token, total } = Limits::of(settings, placed.prediction());
    let set = |micros| Limit { after: Micros::new(micros), basis: Basis::Set };
    assert_eq!((first_token, total), (set(7), set(9)));
    assert_eq!(stall(settings, Micros::new(SECOND)), set(8));
    // A total that is set bounds a first token that is not.
    let settings = DeadlineSettings { first_token: Patience::Auto, ..settings };
    assert_eq!(Limits::of(settings, placed.prediction()).first_token, set(9));
}

#[test]
fn a_short_prompt_at_a_fast_worker_gets_the_least() {
    let (mut router, _, now) = measured(4_000, 20_000);
    let placed = send(&mut router, request(1_000, Some(500)), at(now));
    let Limits { first_token, total } = limits(&placed);
    assert_eq!(first_token, Limit { after: FIRST_TOKEN_LEAST, basis: Basis::Least });
    assert_eq!(total, Limit { after: TOTAL_LEAST, basis: Basis::Least });
}

#[test]
fn a_worker_that_was_never_measured_is_taken_to_be_slow() {
    let (mut router, _) = one();
    let placed = send(&mut router, request(1_500, Some(2_000)), at(0));
    assert_eq!(limits(&placed).first_token.after, FIRST_TOKEN_LEAST);
    let placed = send(&mut router, request(100_000, None), at(0));
    let first = limits(&placed).first_token;
    // Its own prompt and the one before it, at 25 tokens a second.
    assert_eq!(first, Limit { after: Micros::new(101_500 * SECOND / 25), basis: Basis::Assumed });
}

#[test]
fn a_long_prompt_in_a_long_queue_is_given_the_time_that_both_take() {
    let (mut router, _, now) = measured(1_000, 20_000);
    let queue: Vec<Placed> =
        (0..10).map(|_| send(&mut router, request(100_000, None), at(now))).collect();
    let placed = send(&mut router, request(100_000, None), at(now));
    let Limit { after, basis } = limits(&placed).first_token;
    assert_eq!(basis, Basis::Measured);
    let takes = 11 * 100 * SECOND;
    assert!((3 * takes..=6 * takes).contains(&after.get()), "{after:?}");
    drop(queue);
}

#[test]
fn the_total_covers_the_longest_answer_at_the_slowest_pace_that_was_seen() {
    // Five tokens a second: 16,000 of them take 53 minutes.
    let (mut router, worker, now) = measured(1_000, 200_000);
    let placed = send(&mut router, request(1_000, Some(16_000)), at(now));
    let Limit { after, basis } = limits(&placed).total;
    assert_eq!(basis, Basis::Measured);
    assert!(Micros::new(3_200 * SECOND) < after, "{after:?}");
    assert!(after < Micros::new(8_000 * SECOND), "{after:?}");
    // An answer without a limit may fill the worker's cache, and no more.
    let scraped = Scraped {
        at: at(now),
        running: 1,
        waiting: 0,
        kv_use_permille: Some(0),
        kv_capacity: Some(Tokens::new(11_000)),
        block_size: None,
        preemptions: None,
    };
    router.scraped(worker, scraped);
    let placed = send(&mut router, request(1_000, None), at(now));
    let after = limits(&placed).total.after;
    assert!(after < Micros::new(5_000 * SECOND), "{after:?}");
}

#[test]
fn no_default_is_shorter_than_its_least_or_longer_than_a_day() {
    for (pace, step) in [(1, SECOND), (25, 250_000), (1_000, 20_000), (40_000, 1_000)] {
        let (mut router, worker, now) = measured(pace, step);
        for tokens in [1, 100, 10_000, 1_000_000] {
            for limit in [None, Some(1), Some(4_096), Some(u32::MAX)] {
                let placed = send(&mut router, request(tokens, limit), at(now));
                let Limits { first_token, total } = limits(&placed);
                assert!((FIRST_TOKEN_LEAST..=LIMIT_MAX).contains(&first_token.after));
                assert!((TOTAL_LEAST..=LIMIT_MAX).contains(&total.after));
                assert!(first_token.after <= total.after);
                let settings = DeadlineSettings::default();
                let stall = router.stall_limit(worker, settings, at(now)).after;
                assert!((STALL_LEAST..=LIMIT_MAX).contains(&stall));
                router.end(placed, Outcome::of(Ending::Abandoned), at(now));
            }
        }
    }
}

#[test]
fn answers_stand_still_while_their_worker_computes_a_long_prompt() {
    let (mut router, worker, now) = measured(100, 20_000);
    let settings = DeadlineSettings::default();
    assert_eq!(router.stall_limit(worker, settings, at(now)).after, STALL_LEAST);
    let placed = send(&mut router, request(10_000, None), at(now));
    let stall = router.stall_limit(worker, settings, at(now)).after;
    assert!(Micros::new(300 * SECOND) < stall, "a hundred seconds, and a margin: {stall:?}");
    router.end(placed, Outcome::of(Ending::Abandoned), at(now));
    assert_eq!(router.stall_limit(worker, settings, at(now)).after, STALL_LEAST);
}

#[test]
fn an_engine_that_counts_its_steps_shows_sooner_that_it_is_frozen() {
    let (mut router, worker, now) = measured(100, 20_000);
    let settings = DeadlineSettings::default();
    let _placed = send(&mut router, request(100_000, None), at(now));
    let limit = |counted| router.standstill_limit(worker, settings, counted, at(now)).after;
    // A step computes 8,192 tokens at most, in 82 s here; the whole prompt takes a thousand.
    assert!(limit(Progress::Steps) < Micros::new(500 * SECOND));
    assert!(Micros::new(3_000 * SECOND) < limit(Progress::Tokens));
}

#[test]
fn only_what_was_measured_clearly_misses_a_deadline() {
    let (mut router, _) = one();
    let placed = send(&mut router, request(1_000_000, None), at(0));
    assert!(!placed.prediction().misses(Micros::new(1)), "nothing was measured");
    let (mut router, _, now) = measured(1_000, 20_000);
    let placed = send(&mut router, request(100_000, Some(1)), at(now));
    let prediction = placed.prediction();
    assert!(prediction.misses(Micros::new(60 * SECOND)), "100 s: {prediction:?}");
    assert!(!prediction.misses(Micros::new(90 * SECOND)), "that is not clear");
    // Those before it are known within a factor of two.
    let placed = send(&mut router, request(100, Some(1)), at(now));
    let prediction = placed.prediction();
    assert!(prediction.misses(Micros::new(40 * SECOND)), "{prediction:?}");
    assert!(!prediction.misses(Micros::new(60 * SECOND)), "{prediction:?}");
}

#[test]
fn first_tokens_that_came_later_than_expected_are_allowed_for() {
    let mut fleet = Fleet::new();
    let worker = fleet.join(1).unwrap();
    let models: Vec<String> = ["m".into()].into();
    fleet.probed(worker, Probe::Ready(&models), at(0));
    let demand = Demand { prompt: Tokens::new(1_000), ..Demand::default() };
    let late = |fleet: &Fleet, now| fleet.predict(worker, demand, now).late;
    assert_eq!(late(&fleet, at(0)), Micros::ZERO);
    // Each takes a second; of a hundred, three wait for half a minute where nobody expects it.
    let mut now = 0;
    for round in 0..110 {
        let mut attempt = fleet.start(worker, demand, Turn::First, at(now));
        now += if round % 40 == 39 { 31 } else { 1 };
        fleet.first_token(&mut attempt, at(now));
        fleet.end(attempt, Ending::Answered, at(now));
    }
    let late = late(&fleet, at(now));
    assert!(Micros::new(15 * SECOND) < late && late < Micros::new(40 * SECOND), "{late:?}");
}
