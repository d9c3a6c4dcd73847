//! Loads are told honestly: closed loops, refusals, warm-ups, stages and single workers.

use overdraft_core::admit::Mode;
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::Catalogue;
use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::report::{Cause, Fate, Sample};
use crate::workload::{Ladder, Pacing, Rung, Session, Sessions, Source};

fn scenario(workers: u32) -> Scenario {
    let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
    let routing = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
    Scenario::new(profile, workers, routing)
}

fn sessions(workload: &str, requests: u64) -> Sessions {
    let sessions = Source::parse(workload).unwrap().open(1).unwrap().sessions;
    Pacing { requests_max: Some(requests), ..Pacing::default() }.apply(sessions, 1)
}

fn run(scenario: &Scenario, sessions: Sessions) -> Simulated {
    simulate(scenario, sessions, 1, &mut |_| {}).unwrap()
}

fn due(sample: &Sample) -> u64 {
    sample.intended.since(Instant::ORIGIN).get()
}

fn lost(simulated: &Simulated, cause: Cause) -> usize {
    let samples = simulated.recorder.samples().iter();
    samples.filter(|sample| sample.cause() == Some(cause)).count()
}

#[test]
fn every_refusal_says_why() {
    let mut full = scenario(1);
    full.kv_tokens = Some(Tokens::new(8_000));
    full.routing.admission.mode = Mode::Peak;
    full.queue.requests = 8;
    let load = "unique:question=1000,output=300,spread=0,rate=100";
    let told = run(&full, sessions(load, 200));
    let refused =
        told.recorder.samples().iter().filter(|sample| sample.fate == Fate::Refused).count();
    assert!(0 < lost(&told, Cause::QueueFull), "the queue holds eight");
    let known = lost(&told, Cause::QueueFull) + lost(&told, Cause::WaitedTooLong);
    assert_eq!(known, refused);
    full.queue.requests = 1_000;
    full.patience = all_alike(Micros::new(1_000_000));
    let late = run(&full, sessions(load, 200));
    assert!(0 < lost(&late, Cause::WaitedTooLong) && lost(&late, Cause::QueueFull) == 0);
    let mut small = scenario(1);
    small.context = Some(Tokens::new(500));
    assert_eq!(lost(&run(&small, sessions(load, 20)), Cause::TooLarge), 20);
    let mut short = scenario(1);
    short.waiting_max = 1;
    short.retry.extra_attempts_max = 0;
    short.kv_tokens = Some(Tokens::new(4_000));
    assert!(0 < lost(&run(&short, sessions(load, 100)), Cause::WorkerQueueFull));
    let mut gone = scenario(1);
    gone.refusing = vec!["0:gone:0".parse().unwrap()];
    gone.retry.extra_attempts_max = 0;
    let told = run(&gone, sessions(load, 20));
    assert_eq!(lost(&told, Cause::WorkerLost) + lost(&told, Cause::NoWorker), 20);
}

#[test]
fn admission_costs_a_closed_loop_of_short_prompts_nothing() {
    let ended = |mode: Mode, scrape_every: u64| {
        let mut scenario = scenario(1);
        scenario.pace = Pace::Closed(32);
        scenario.scrape_every = Micros::new(scrape_every);
        scenario.routing.admission.mode = mode;
        let load = sessions("unique:question=300,output=30,spread=0.3,think=0", 2_000);
        let told = run(&scenario, load);
        let samples = told.recorder.samples();
        assert!(samples.iter().all(|sample| sample.fate == Fate::Completed));
        samples.iter().map(|sample| sample.ended.since(Instant::ORIGIN).get()).max().unwrap()
    };
    // It has 256 seats; those who wait for its next step wait for none.
    for scrape_every in [100_000, 200_000, 1_000_000] {
        let (off, peak) = (ended(Mode::Off, scrape_every), ended(Mode::Peak, scrape_every));
        assert!(peak * 100 <= off * 102, "{scrape_every}: {peak} µs instead of {off}");
    }
}

#[test]
fn a_user_who_was_refused_waits_before_beginning_again() {
    let mut scenario = scenario(1);
    scenario.pace = Pace::Closed(1);
    scenario.context = Some(Tokens::new(500));
    scenario.refused_wait = Micros::new(3_000_000);
    let told = run(&scenario, sessions("unique:question=1000,spread=0", 10));
    let dues: Vec<u64> = told.recorder.samples().iter().map(due).collect();
    assert_eq!(dues.len(), 10);
    assert!(dues.windows(2).all(|pair| 3_000_000 <= pair[1] - pair[0]), "{dues:?}");
}

#[test]
fn turns_behind_a_refused_one_are_counted_as_not_asked() {
    let mut scenario = scenario(1);
    scenario.context = Some(Tokens::new(2_000));
    // Prompts grow by 500 tokens a turn: the fourth or fifth does not fit.
    let load = "chat:common=0,question=400,output=100,spread=0,turns=10,think=0,rate=1";
    let told = run(&scenario, sessions(load, 30));
    let asked = told.recorder.samples().len();
    assert_eq!(lost(&told, Cause::TooLarge), 3, "each of three sessions is refused once");
    assert_eq!(asked + usize::try_from(told.recorder.unasked).unwrap(), 30, "{asked}");
}

#[test]
fn users_of_a_timed_loop_keep_the_times_of_the_trace_where_they_are_free() {
    let load = "unique:question=100,output=50,spread=0,rate=2";
    let mut scenario = scenario(1);
    scenario.pace = Pace::Timed(100);
    let meant: Vec<u64> =
        sessions(load, 40).map(|one| one.unwrap().at.since(Instant::ORIGIN).get()).collect();
    let dues = |scenario: &Scenario| {
        let told = run(scenario, sessions(load, 40));
        let mut dues: Vec<u64> = told.recorder.samples().iter().map(due).collect();
        dues.sort_unstable();
        dues
    };
    assert_eq!(dues(&scenario), meant);
    scenario.pace = Pace::Timed(1);
    let alone = dues(&scenario);
    assert!(alone.iter().zip(&meant).all(|(due, meant)| meant <= due), "never earlier");
    assert_ne!(alone, meant, "one user is not always free");
    scenario.pace = Pace::Closed(1);
    assert!(
        dues(&scenario)[39] < meant[39] / 10 * 9,
        "without times a user does not wait for them"
    );
}

#[test]
fn users_without_times_begin_nothing_after_the_end() {
    let mut scenario = scenario(1);
    scenario.pace = Pace::Closed(4);
    scenario.until = Some(Micros::new(20_000_000));
    let told = run(&scenario, sessions("unique:question=100,output=50", 100_000));
    let last = told.recorder.samples().iter().map(due).max().unwrap();
    assert!((15_000_000..20_000_000).contains(&last), "{last}");
}

#[test]
fn users_with_times_begin_nothing_after_the_end_either() {
    let mut scenario = scenario(1);
    scenario.pace = Pace::Timed(1);
    scenario.until = Some(Micros::new(20_000_000));
    let last = |load: Sessions| run(&scenario, load).recorder.samples().iter().map(due).max();
    // A hundred are due within five seconds, and each answer takes almost four.
    let slow = "unique:question=100,output=500,spread=0,rate=20";
    let busy = last(sessions(slow, 100)).unwrap();
    assert!((15_000_000..20_000_000).contains(&busy), "{busy}");
    // A trace that does not say when its sessions come.
    let untimed = sessions(slow, 100)
        .map(|one| one.map(|session| Session { at: Instant::ORIGIN, ..session }));
    let untimed = last(Box::new(untimed)).unwrap();
    assert!((15_000_000..20_000_000).contains(&untimed), "{untimed}");
    // A user who is free does not wait for a session that comes after the end.
    let rare = last(sessions("unique:question=100,output=10,spread=0,rate=0.2", 100)).unwrap();
    assert!(rare < 20_000_000, "{rare}");
}

#[test]
fn sessions_that_began_in_time_ask_nothing_after_the_end() {
    let mut scenario = scenario(1);
    scenario.until = Some(Micros::new(60_000_000));
    // Fifty turns with five seconds between them: each session takes more than four minutes.
    let load = "chat:common=0,question=50,output=20,spread=0,turns=50,think=5,rate=100";
    for (pace, fewest) in [(Pace::Open, 60), (Pace::Closed(2), 4), (Pace::Timed(2), 4)] {
        scenario.pace = pace;
        let told = run(&scenario, sessions(load, 1_000));
        let samples = told.recorder.samples();
        assert!(samples.iter().all(|sample| due(sample) < 60_000_000), "{pace:?}");
        assert!(fewest < samples.len() && samples.len() < 500, "{pace:?}: {}", samples.len());
        assert_eq!(told.recorder.unasked, 0, "{pace:?}");
    }
}

#[test]
fn sessions_whose_first_turn_is_due_after_the_end_are_left_out() {
    let mut scenario = scenario(1);
    scenario.until = Some(Micros::new(10_000_000));
    let load = "chat:common=0,question=50,output=20,spread=0,turns=2,think=0,rate=1";
    // Those that begin in the last five seconds are still thinking at the end.
    let late = || -> Sessions {
        Box::new(sessions(load, 40).map(|session| {
            session.map(|mut session| {
                session.turns[0].think = Micros::new(5_000_000);
                session
            })
        }))
    };
    for pace in [Pace::Open, Pace::Closed(2), Pace::Timed(2)] {
        scenario.pace = pace;
        let told = run(&scenario, late());
        let samples = told.recorder.samples();
        assert!(!samples.is_empty(), "{pace:?}");
        assert!(samples.iter().all(|sample| due(sample) < 10_000_000), "{pace:?}");
        assert_eq!(told.recorder.unasked, 0, "{pace:?}");
    }
}

#[test]
fn a_warm_up_is_computed_and_not_counted_and_stages_are_told_apart() {
    let mut ladder = Ladder::parse("5,20:20s").unwrap();
    ladder.warm_up = Some(Rung::warm_up("10:20s").unwrap());
    ladder.gap = Micros::new(5_000_000);
    let load = "tenants:groups=4,prefix=4000,question=50,output=20";
    let climb = || ladder.apply(Source::parse(load).unwrap().open(1).unwrap().sessions, 1);
    let told = run(&scenario(2), climb());
    let samples = told.recorder.samples();
    assert!(samples.iter().all(|sample| 25_000_000 <= due(sample)), "the warm-up is not counted");
    let of = |stage| samples.iter().filter(|one| one.belongs.stage == Some(stage)).count();
    assert!((60..140).contains(&of(0)) && (330..470).contains(&of(1)), "{} {}", of(0), of(1));
    assert_eq!(of(0) + of(1), samples.len());
    // Caches are warm: all four prefixes were computed before.
    assert!(samples.iter().all(|one| one.cached.is_some_and(|cached| 3_000 < cached.get())));
    // The same by a time.
    let mut timed = scenario(2);
    timed.warm_up = Micros::new(40_000_000);
    let timed = run(&timed, climb());
    assert!(timed.recorder.samples().iter().all(|sample| 40_000_000 <= due(sample)));
}

#[test]
fn single_workers_account_for_all_of_a_fleet() {
    let mut scenario = scenario(3);
    scenario.kv_tokens = Some(Tokens::new(6_000));
    let told = run(&scenario, sessions("unique:question=400,output=300,rate=40", 200));
    let workers = &told.groups.workers;
    assert_eq!(workers.len(), 3);
    assert_eq!(workers.iter().map(|one| one.preemptions).sum::<u64>(), told.preemptions);
    assert!(0 < told.preemptions);
    assert!(workers.iter().all(|one| 0.0 < one.busy_seconds), "{workers:?}");
    let of =
        |worker| told.recorder.samples().iter().filter(move |s| s.belongs.worker == Some(worker));
    assert_eq!((0..3).map(|worker| of(worker).count()).sum::<usize>(), 200);
    let seen: Vec<&str> = told.series.iter().map(|series| series.key).collect();
    assert_eq!(seen, ["running", "waiting", "queued", "kv_use_percent", "preemptions"]);
    let so_far = &told.series[4].points;
    assert!(so_far.is_sorted_by(|one, other| one.1 <= other.1) && 0.0 < so_far.last().unwrap().1);
}
