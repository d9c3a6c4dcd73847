//! Black-hole workers: a worker that refuses at once does not swallow the traffic, under any
//! policy.

use overdraft_core::admit::{AdmitSettings, Priority, Tenant};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, Failure, FirstToken, Probe, Turn, WorkerId};
use overdraft_core::prefix::PrefixLimits;
use overdraft_core::route::{
    Attempted, Choice, GiveUp, Outcome, Placed, Policy, Prompt, Request, RetrySettings,
    RouteSettings, Router, Strictness, Tried, Verdict, retry,
};
use overdraft_units::{BlockSize, Instant, Micros, Tokens};

const MODEL: &str = "m";
/// From one arrival to the next: twenty a second.
const BETWEEN: Micros = Micros::new(50_000);
const ANSWER_TAKES: Micros = Micros::new(1_000_000);
const REFUSAL_TAKES: Micros = Micros::new(1_000);
const REQUESTS: u32 = 300;

/// What a worker does with what it is sent.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Answers so many at a time, a second each, and is full beyond.
    Serves(usize),
    Refuses(Failure),
}

struct World {
    router: Router,
    ids: Vec<WorkerId>,
    manners: Vec<Manner>,
    settings: RouteSettings,
    now: Instant,
    under_way: Vec<(Instant, Placed, Tried)>,
    /// Requests that were sent to each worker.
    asked: Vec<u32>,
    served: u32,
    failed: u32,
}

impl World {
    fn new(policy: Policy, manners: &[Manner]) -> Self {
        let mut router = Router::new(PrefixLimits::default());
        let ids = (0..).zip(manners).filter_map(|(tag, _)| router.join(tag)).collect::<Vec<_>>();
        for &id in &ids {
            router.probed(id, Probe::Ready(&[MODEL.to_owned()]), Instant::ORIGIN);
        }
        Self {
            router,
            asked: vec![0; ids.len()],
            ids,
            manners: manners.to_vec(),
            settings: RouteSettings { policy, ..RouteSettings::default() },
            now: Instant::ORIGIN + Micros::new(60_000_000),
            under_way: Vec::new(),
            served: 0,
            failed: 0,
        }
    }

    fn run(&mut self, requests: u32) {
        for dice in 0..requests {
            self.now = self.now + BETWEEN;
            self.end_those_that_are_over();
            self.ask(u64::from(dice));
        }
    }

    fn end_those_that_are_over(&mut self) {
        let now = self.now;
        let over: Vec<_> = self.under_way.extract_if(.., |(until, ..)| *until <= now).collect();
        for (until, placed, tried) in over {
            let completion = Some(Tokens::new(10));
            let outcome = Outcome { completion, ..Outcome::of(Ending::Answered) };
            self.router.end(placed, outcome, until);
            self.router.refuted(&tried, until);
            self.served += 1;
        }
    }

    /// Asks as the shell does.
    fn ask(&mut self, dice: u64) {
        let mut tried = Tried::default();
        let mut settings = self.settings;
        loop {
            let turn = if tried.attempts() == 0 { Turn::First } else { Turn::Again };
            let request = request(dice);
            let Ok(placed) =
                self.router.place(request, &settings, Attempted { tried: &tried, turn }, self.now)
            else {
                break;
            };
            let worker = placed.worker();
            self.asked[worker.index()] += 1;
            let busy = self.under_way.iter().filter(|(_, one, _)| one.worker() == worker).count();
            let failure = match self.manners[worker.index()] {
                Manner::Serves(most) if busy < most => {
                    self.under_way.push((self.now + ANSWER_TAKES, placed, tried));
                    return;
                }
                Manner::Serves(_) => Failure::Saturated,
                Manner::Refuses(failure) => failure,
            };
            self.now = self.now + REFUSAL_TAKES;
            self.router.end(placed, Outcome::of(Ending::Failed(failure)), self.now);
            let fleet = self.router.fleet();
            tried.fail(worker, failure, fleet, self.now);
            let verdict = retry(fleet, RetrySettings::default(), MODEL, &tried, self.now);
            if verdict == Verdict::GiveUp(GiveUp::Agreed) {
                self.router.agreed(&tried);
            }
            if verdict != Verdict::Elsewhere {
                break;
            }
            settings = Strictness::after(failure).over(&self.settings);
        }
        self.failed += 1;
    }

    fn finish(&mut self) {
        self.now = self.now + ANSWER_TAKES;
        self.end_those_that_are_over();
    }
}

fn request(dice: u64) -> Request<'static> {
    let block = BlockSize::new(16).expect("16 is not zero");
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens: Tokens::new(100), chain: &[], block },
        limit: None,
        choices: 1,
        first_token: FirstToken::Unseen,
        session: None,
        dice,
        priority: Priority::Default,
        tenant: Tenant(0),
        kind: Kind::default(),
    }
}

const FAILURES: [Failure; 6] = [
    Failure::Saturated,
    Failure::Misconfigured,
    Failure::Disputed,
    Failure::Faulty,
    Failure::Broken,
    Failure::Unreachable,
];
const ANY: Manner = Manner::Serves(usize::MAX);

#[test]
fn beside_one_that_refuses_all_are_served() {
    for policy in Policy::ALL {
        for failure in FAILURES {
            let mut world = World::new(policy, &[Manner::Refuses(failure), ANY]);
            world.run(REQUESTS);
            world.finish();
            assert_eq!(world.failed, 0, "{policy}, {failure:?}: asked {:?}", world.asked);
            // Disputes are decided when the first answer is there, a second after the first question.
            let most = if failure == Failure::Disputed { 30 } else { 12 };
            assert!(world.asked[0] <= most, "{policy}, {failure:?}: asked {:?}", world.asked);
        }
    }
}

#[test]
fn beside_three_that_refuse_the_fourth_is_used_to_its_capacity() {
    for policy in Policy::ALL {
        for failure in FAILURES {
            let refuses = Manner::Refuses(failure);
            let mut world = World::new(policy, &[refuses, refuses, refuses, Manner::Serves(8)]);
            world.run(REQUESTS);
            world.finish();
            // Fifteen seconds, eight a second: 120 and a few.
            assert!(110 <= world.served, "{policy}, {failure:?}: served {}", world.served);
            let asked: u32 = world.asked.iter().sum();
            assert!(asked <= 2 * REQUESTS, "{policy}, {failure:?}: asked {:?}", world.asked);
        }
    }
}

#[test]
fn where_all_refuse_nobody_is_asked_much_more_often_than_there_are_requests() {
    for policy in Policy::ALL {
        for failure in FAILURES {
            let mut world = World::new(policy, &[Manner::Refuses(failure); 4]);
            world.run(REQUESTS);
            assert_eq!((world.served, world.failed), (0, REQUESTS));
            let asked: u32 = world.asked.iter().sum();
            assert!(asked <= REQUESTS * 11 / 10, "{policy}, {failure:?}: asked {:?}", world.asked);
        }
    }
}

#[test]
fn workers_that_deny_what_they_served_are_found_out_by_those_that_serve() {
    for policy in Policy::ALL {
        let mut world = World::new(policy, &[ANY; 12]);
        world.run(60);
        for manner in &mut world.manners[..4] {
            *manner = Manner::Refuses(Failure::Disputed);
        }
        world.run(REQUESTS);
        world.finish();
        // The first who deny it are believed, two at a time: each of them has served others.
        assert!(world.failed <= 8, "{policy}: failed {}, asked {:?}", world.failed, world.asked);
    }
}

#[test]
fn a_lone_worker_that_was_full_for_a_moment_serves_the_next_request() {
    for failure in [Failure::Saturated, Failure::Misconfigured, Failure::Disputed, Failure::Faulty]
    {
        let mut world = World::new(Policy::Cost, &[Manner::Refuses(failure)]);
        world.run(40);
        assert_eq!(world.failed, 40, "{failure:?}");
        world.manners[0] = ANY;
        world.run(40);
        world.finish();
        assert_eq!((world.served, world.failed), (40, 40), "{failure:?}");
    }
}

#[test]
fn one_that_refused_for_a_moment_is_used_again_soon() {
    let mut world = World::new(Policy::RoundRobin, &[Manner::Refuses(Failure::Saturated), ANY]);
    world.run(5);
    world.manners[0] = ANY;
    world.run(40);
    let before = world.asked[0];
    world.run(40);
    assert_eq!(world.asked[0] - before, 20, "its half");
}

#[test]
fn what_every_worker_denies_is_told_and_nobody_is_harmed() {
    let mut world = World::new(Policy::LeastLoad, &[ANY, ANY, ANY]);
    world.run(30);
    world.manners = vec![Manner::Refuses(Failure::Disputed); 3];
    let before: u32 = world.asked.iter().sum();
    world.run(30);
    let asked: u32 = world.asked.iter().sum();
    assert_eq!((world.failed, asked - before), (30, 60), "one asked, and one to make sure");
    world.manners = vec![ANY; 3];
    let before = world.asked.clone();
    world.run(30);
    for (asked, before) in world.asked.iter().zip(&before) {
        assert!((8..=12).contains(&(asked - before)), "{:?} after {before:?}", world.asked);
    }
}

#[test]
fn a_lone_worker_that_has_not_what_it_lists_is_not_held_to_be_misconfigured() {
    let mut world = World::new(Policy::Cost, &[Manner::Refuses(Failure::Disputed)]);
    world.run(10);
    assert_eq!((world.failed, world.asked[0]), (10, 10));
    let worker = world.router.fleet().worker(world.ids[0]);
    assert!(worker.is_in_good_standing(world.now));
}

#[test]
fn a_lone_worker_that_may_be_out_and_is_not_asked_in_panic_fails_fast() {
    let mut world = World::new(Policy::Cost, &[Manner::Refuses(Failure::Faulty)]);
    let breaker = overdraft_core::breaker::BreakerSettings {
        failures_in_a_row: 100,
        ejected_permille: 1_000,
        panic_permille: 0,
        ..Default::default()
    };
    world.router.set_breakers(breaker);
    world.run(99);
    assert_eq!(world.asked[0], 99);
    let choice = |world: &mut World| {
        let settings = RouteSettings { admission: AdmitSettings::off(), ..world.settings };
        world.router.explain(request(1), &settings, &Tried::default(), world.now).choice
    };
    assert_eq!(choice(&mut world), Choice::Send(world.ids[0]), "99 in a row are not 100");
    world.run(60);
    assert_eq!(world.asked[0], 100);
    assert_eq!(choice(&mut world), Choice::NoneUp);
}
