//! Histories repeat, nothing is lost, and policies differ where they should and nowhere else.

use overdraft_core::route::{Policy, RouteSettings};
use overdraft_silicon::Catalogue;
use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::numbers::float;
use crate::report::{Fate, Objectives, Summary};
use crate::workload::{Pacing, Source, WorkloadError};

fn scenario(policy: Policy, workers: u32) -> Scenario {
    let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16").unwrap();
    Scenario::new(profile, workers, RouteSettings { policy, ..RouteSettings::default() })
}

fn run(scenario: &Scenario, workload: &str, requests: u64, seed: u64) -> Simulated {
    let sessions = Source::parse(workload).unwrap().open(seed).unwrap().sessions;
    let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
    simulate(scenario, pacing.apply(sessions, seed), seed, &mut |_| {}).unwrap()
}

fn summary(simulated: &Simulated) -> Summary {
    Summary::of(&simulated.recorder, &Objectives::default())
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for knowledge in [CacheKnowledge::Estimated, CacheKnowledge::Reported] {
        let mut scenario = scenario(Policy::Cost, 3);
        scenario.knowledge = knowledge;
        let digest = |seed| run(&scenario, "chat:rate=20", 400, seed).recorder.digest();
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
    }
}

#[test]
fn every_request_is_answered_in_full_and_books_balance() {
    for policy in Policy::ALL {
        let workload = "chat:rate=15,turns=3,spread=0";
        let simulated = run(&scenario(policy, 2), workload, 300, 3);
        let samples = simulated.recorder.samples();
        assert_eq!(samples.len(), 300, "{policy}");
        for sample in samples {
            assert_eq!(sample.fate, Fate::Completed, "{policy}");
            let first = sample.first_token.expect("an answer has a first token");
            assert!(sample.intended < first && first <= sample.ended, "{sample:?}");
            assert!(sample.cached.unwrap() < sample.prompt, "the last token is always computed");
        }
    }
}

#[test]
fn a_lone_request_takes_what_the_profile_says() {
    let scenario = scenario(Policy::Cost, 1);
    let simulated = run(&scenario, "unique:question=1000,output=50,spread=0,rate=0.1", 5, 1);
    let told = summary(&simulated);
    // workloads.md: 23 ms for a prompt of 1,000 and 7.3 ms a token alone on one H100.
    assert!((18.0..30.0).contains(&told.ttft.median), "{:?}", told.ttft);
    assert!((6.5..8.5).contains(&told.tpot.median), "{:?}", told.tpot);
    assert!(0.0 < simulated.cost && simulated.preemptions == 0);
}

#[test]
fn prefixes_are_found_where_routing_sends_them() {
    let workload = "tenants:groups=16,prefix=6000,question=200,output=40,rate=12";
    let shares = |policy, knowledge| {
        let mut scenario = scenario(policy, 4);
        scenario.knowledge = knowledge;
        // Room for about a third of the prefixes.
        scenario.kv_tokens = Some(Tokens::new(40_000));
        summary(&run(&scenario, workload, 400, 2)).cached_share()
    };
    let blind = shares(Policy::RoundRobin, CacheKnowledge::Estimated);
    let guessed = shares(Policy::Cost, CacheKnowledge::Estimated);
    let known = shares(Policy::Cost, CacheKnowledge::Reported);
    assert!(blind + 0.2 < guessed, "{blind} {guessed}");
    assert!(guessed < known + 0.05, "{guessed} {known}");
}

#[test]
fn a_cache_that_is_too_small_preempts_and_refuses_what_never_fits() {
    let mut scenario = scenario(Policy::RoundRobin, 1);
    scenario.kv_tokens = Some(Tokens::new(2_048));
    let simulated = run(&scenario, "unique:question=200,output=400,spread=0,rate=50", 60, 1);
    assert!(0 < simulated.preemptions);
    assert_eq!(summary(&simulated).completed, 60);
    let refused = run(&scenario, "unique:question=4000,output=10,spread=0,rate=50", 5, 1);
    assert_eq!(summary(&refused).refused, 5);
}

#[test]
fn users_of_a_closed_loop_are_never_more_than_there_are() {
    let mut scenario = scenario(Policy::LeastLoad, 2);
    scenario.pace = Pace::Closed(6);
    let told = summary(&run(&scenario, "unique:question=300,output=30", 60, 1));
    assert_eq!((told.completed, told.peak_concurrency), (60, 6));
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let refused = |scenario: &Scenario| {
        let none = Box::new(std::iter::empty::<Result<_, WorkloadError>>());
        simulate(scenario, none, 1, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused(&scenario(Policy::Cost, 0)).contains("`0` workers"));
    let mut small = scenario(Policy::Cost, 1);
    small.kv_tokens = Some(Tokens::new(3));
    assert!(refused(&small).contains("`3` tokens holds no page; expected 16"));
}

#[test]
fn time_goes_on_without_requests_and_then_ends() {
    let scenario = scenario(Policy::Cost, 1);
    let simulated = run(&scenario, "unique:rate=0.01,output=2", 2, 1);
    let last = simulated.recorder.samples()[1].ended;
    assert!(Micros::new(1_000_000) < last.since(Instant::ORIGIN));
    assert!(float(last.since(Instant::ORIGIN).get()) < 1e10);
    assert!(!simulated.series[0].points.is_empty());
}
