//! Histories repeat, nothing is lost, and policies differ where they should and nowhere else.

mod cascade_drafts;

use overdraft_core::admit::{Mode, Priority};
use overdraft_core::cascade;
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::Catalogue;
use overdraft_scheduler::speculate;
use overdraft_units::{Instant, Micros, Ratio, Tokens};

use super::*;
use crate::float_conversion::float;
use crate::report::{Belongs, Fate, Objectives, Sample, Summary};
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
fn several_gateways_answer_all_and_know_what_each_has_sent_itself() {
    let workload = "tenants:groups=16,prefix=6000,question=200,output=40,rate=12";
    let run = |gateways, knowledge| {
        let mut scenario = scenario(Policy::Cost, 4);
        (scenario.gateways, scenario.knowledge) = (gateways, knowledge);
        run(&scenario, workload, 400, 2)
    };
    let share = |gateways, knowledge| {
        let told = summary(&run(gateways, knowledge));
        assert_eq!(told.completed, 400);
        told.cached_share()
    };
    let (one, four) = (share(1, CacheKnowledge::Estimated), share(4, CacheKnowledge::Estimated));
    assert!(four + 0.03 < one, "each finds out by itself who holds what: {four} {one}");
    let reported = share(4, CacheKnowledge::Reported);
    assert!(four + 0.03 < reported, "what workers report all of them hear: {four} {reported}");
    let digest = || run(4, CacheKnowledge::Estimated).recorder.digest();
    assert_eq!(digest(), digest());
}

#[test]
fn gateways_that_hear_of_each_other_at_once_are_nearly_as_one() {
    let waited = |gateways, share_every| {
        let mut scenario = scenario(Policy::LeastLoad, 8);
        (scenario.gateways, scenario.share_every) = (gateways, share_every);
        // Nothing is known but from gateways.
        scenario.scrape_every = Micros::new(60_000_000);
        let simulated = run(&scenario, "unique:question=2000,output=400,rate=40", 1_200, 5);
        summary(&simulated).ttft.p99
    };
    let one = waited(1, Micros::ZERO);
    let at_once = waited(8, Micros::new(1_000));
    let never = waited(8, Micros::new(3_600_000_000));
    assert!(at_once < 1.2 * one && at_once < never, "{one} {at_once} {never}");
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
fn an_answer_is_cut_where_the_context_ends() {
    let mut scenario = scenario(Policy::Cost, 1);
    scenario.context = Some(Tokens::new(300));
    let simulated = run(&scenario, "unique:question=200,output=400,spread=0,rate=5", 4, 1);
    assert!(simulated.recorder.samples().iter().all(|one| one.output == Tokens::new(100)));
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
    let mut short = scenario(Policy::Cost, 1);
    short.context = Some(Tokens::new(1));
    assert!(refused(&short).contains("a context of `1` tokens holds no prompt"));
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

#[test]
fn an_unguarded_fleet_dies_where_a_guarded_one_lets_wait() {
    let workload = "bursts:question=400,output=300,spread=0.5,rate=12,swing=3,period=20";
    let fleet = |mode| {
        let mut scenario = scenario(Policy::RoundRobin, 2);
        scenario.kv_tokens = Some(Tokens::new(12_000));
        scenario.declared = Some(Tokens::new(2_048));
        scenario.overdraft = Overdraft::Crash(Micros::new(20_000_000));
        scenario.routing.admission.mode = mode;
        run(&scenario, workload, 600, 4)
    };
    let [unguarded, reserved] = [Mode::Off, Mode::Reserve].map(fleet);
    assert!(0 < unguarded.crashes && 0 < summary(&unguarded).failed);
    assert_eq!((reserved.crashes, summary(&reserved).failed), (0, 0));
    assert_eq!(summary(&reserved).offered, 600);
    assert_eq!(summary(&reserved).completed + summary(&reserved).refused, 600);
}

#[test]
fn no_answer_is_longer_than_its_client_says() {
    let tokens = |declared: Option<u32>| -> Vec<u32> {
        let mut scenario = scenario(Policy::Cost, 2);
        scenario.declared = declared.map(Tokens::new);
        let simulated = run(&scenario, "unique:output=100,spread=0.5,rate=5", 60, 1);
        simulated.recorder.samples().iter().map(|sample| sample.output.get()).collect()
    };
    let whole = tokens(None);
    assert!(whole.iter().any(|&output| 80 < output) && whole.iter().any(|&output| output < 80));
    let (longest, long) = (tokens(Some(80)), tokens(Some(4_096)));
    assert_eq!(longest.iter().max(), Some(&80), "{longest:?}");
    assert_eq!(long.iter().max(), whole.iter().max(), "what is declared makes no answer longer");
}

#[test]
fn who_had_no_token_yet_is_asked_of_another_worker_as_often_as_the_core_says() {
    let workload = "bursts:question=400,output=300,spread=0.5,rate=12,swing=3,period=20";
    let fleet = |extra_attempts_max| {
        let mut scenario = scenario(Policy::RoundRobin, 3);
        scenario.kv_tokens = Some(Tokens::new(12_000));
        scenario.overdraft = Overdraft::Crash(Micros::new(20_000_000));
        scenario.retry.extra_attempts_max = extra_attempts_max;
        run(&scenario, workload, 600, 4)
    };
    let [never, again] = [0, 2].map(fleet);
    assert!(0 < never.crashes && 0 < summary(&never).failed, "{}", never.crashes);
    assert_eq!(never.retries, 0);
    assert!(0 < again.crashes && 0 < again.retries);
    let unheard = |one: &Simulated| {
        let samples = one.recorder.samples().iter();
        samples.filter(|one| one.fate == Fate::Failed && one.first_token.is_none()).count()
    };
    assert!(unheard(&again) < unheard(&never), "{} {}", unheard(&again), unheard(&never));
    let broken = |one: &&Sample| one.fate == Fate::Failed && one.first_token.is_some();
    let broken: Vec<&Sample> = again.recorder.samples().iter().filter(broken).collect();
    assert!(!broken.is_empty(), "what was told in part is not told again");
    for simulated in [&never, &again] {
        let told = summary(simulated);
        assert_eq!(told.offered, 600);
        assert_eq!(told.completed + told.failed + told.refused, 600, "each ends once");
    }
}

#[test]
fn whoever_waits_for_too_long_is_refused() {
    let mut scenario = scenario(Policy::Cost, 1);
    scenario.kv_tokens = Some(Tokens::new(4_096));
    scenario.routing.admission.mode = Mode::Reserve;
    scenario.patience = all_alike(Micros::new(2_000_000));
    let workload = "unique:question=1000,output=1000,spread=0,rate=20";
    let told = summary(&run(&scenario, workload, 40, 1));
    assert!(0 < told.refused && 0 < told.completed, "{told:?}");
    assert_eq!(told.refused + told.completed, 40);
    assert!(told.ttft.p99 < 3_000.0, "{:?}", told.ttft);
}

#[test]
fn a_request_that_is_started_soon_is_kept_and_none_for_longer_than_the_bound() {
    let mut scenario = scenario(Policy::Cost, 1);
    scenario.kv_tokens = Some(Tokens::new(4_096));
    scenario.routing.admission.mode = Mode::Reserve;
    // All at once: two at a time, and the last is started after some forty times the first one's answer.
    let workload = "unique:question=1000,output=200,spread=0,rate=1000";
    let run = |patience| {
        let mut scenario = scenario.clone();
        scenario.patience = all_alike(patience);
        summary(&run(&scenario, workload, 80, 1))
    };
    let all = run(Micros::new(3_600_000_000));
    assert_eq!(all.completed, 80);
    let last = all.ttft.p99;
    let times = |share: f64| Micros::from(std::time::Duration::from_secs_f64(share * last / 1e3));
    assert_eq!(run(times(0.6)).completed, 80, "all are started within twice that");
    let short = run(times(0.3));
    assert!((40..60).contains(&short.completed), "{short:?}");
    assert!(short.ttft.p99 <= 0.62 * last, "{short:?}");
}

#[test]
fn what_was_asked_before_is_answered_again_and_computed_once() {
    let mut scenario = scenario(Policy::Cost, 2);
    let workload = "unique:question=500,output=50,rate=5,repeat=0.4";
    let (plain, again) = (run(&scenario, workload, 400, 3), {
        let (bytes, kept, takes) = (64 << 20, KEPT_DEFAULT, LOOK_UP_DEFAULT);
        scenario.cache = Some(AnswerCache { bytes, kept, takes });
        run(&scenario, workload, 400, 3)
    });
    assert_eq!(plain.reused, (0, 0));
    assert!((120..=170).contains(&again.reused.0), "{:?}", again.reused);
    let tokens = |one: &Simulated| summary(one).output_tokens;
    assert_eq!(tokens(&plain), tokens(&again), "the answers are the same");
    // Points of a second each: answers that are given again are seen over time as well.
    let seen: f64 = again.recorder.tokens.rates().iter().map(|(_, rate)| rate).sum();
    assert!((seen - float(tokens(&again))).abs() < 0.5, "{seen} tokens over time");
    assert!(summary(&again).ttft.median < summary(&plain).ttft.median);
    scenario.cache = Some(AnswerCache { bytes: 1, kept: KEPT_DEFAULT, takes: LOOK_UP_DEFAULT });
    let rare = "unique:question=500,output=50,rate=0.01,repeat=0.4";
    assert_eq!(run(&scenario, rare, 100, 4).reused, (0, 0), "there is no room for an answer");
}

#[test]
fn no_tenant_is_given_what_was_kept_for_another() {
    let reused = |tenants: &[f64]| {
        let mut scenario = scenario(Policy::Cost, 2);
        let (bytes, kept, takes) = (64 << 20, KEPT_DEFAULT, LOOK_UP_DEFAULT);
        scenario.cache = Some(AnswerCache { bytes, kept, takes });
        scenario.mix.tenants = tenants.to_vec();
        run(&scenario, "unique:question=500,output=50,rate=5,repeat=0.4", 400, 3).reused.0
    };
    let (one, eight) = (reused(&[1.0]), reused(&[1.0; 8]));
    assert_eq!(one, reused(&[]));
    // A repeat comes from the tenant that asked first once in eight times.
    assert!(0 < eight && 3 * eight < one, "{eight} {one}");
}

#[test]
fn what_is_being_answered_is_computed_once_for_all_who_ask() {
    let mut scenario = scenario(Policy::Cost, 1);
    let (kept, takes) = (KEPT_DEFAULT, LOOK_UP_DEFAULT);
    // Nothing is kept, so all that is shared is shared while it is being said.
    scenario.cache = Some(AnswerCache { bytes: 1, kept, takes });
    let workload = "unique:question=500,output=400,spread=0,rate=20,repeat=0.9";
    let told = run(&scenario, workload, 200, 3);
    assert_eq!(summary(&told).completed, 200);
    assert!(100 < told.reused.0, "{:?}", told.reused);
    for sample in told.recorder.samples() {
        let first = sample.first_token.expect("all were answered");
        assert!(sample.intended + takes <= first && first <= sample.ended, "{sample:?}");
        assert_eq!(sample.output, Tokens::new(400));
    }
    // Where the first gets no answer, the others ask for themselves.
    scenario.context = Some(Tokens::new(300));
    let refused = run(&scenario, workload, 200, 3);
    assert_eq!((summary(&refused).refused, refused.reused), (200, (0, 0)));
}

#[test]
fn guesses_that_are_right_bring_tokens_and_wrong_ones_are_given_up() {
    let mut scenario = scenario(Policy::RoundRobin, 1);
    scenario.pace = Pace::Closed(4);
    let workload = "unique:question=500,output=200,spread=0";
    let plain = run(&scenario, workload, 24, 1);
    let guess = |policy, acceptance: f64| {
        let mut scenario = scenario.clone();
        let pass = Micros::new(450);
        let acceptance = vec![vec![acceptance]];
        scenario.speculation = Some(Speculation { policy, depth_max: 8, pass, acceptance });
        run(&scenario, workload, 24, 1)
    };
    let rate = |one: &Simulated| summary(one).output_throughput();
    let good = guess(speculate::Policy::Goodput, 0.8);
    assert!(2.0 * rate(&plain) < rate(&good), "{} {}", rate(&plain), rate(&good));
    assert_eq!(summary(&plain).output_tokens, summary(&good).output_tokens);
    let right = float(good.guesses.right) / float(good.guesses.drafted);
    assert!((0.4..0.85).contains(&right), "{:?}", good.guesses);
    let bad = guess(speculate::Policy::Goodput, 0.05);
    assert!(0.97 * rate(&plain) < rate(&bad), "{} {}", rate(&plain), rate(&bad));
    let stubborn = guess(speculate::Policy::Fixed(8), 0.05);
    assert!(rate(&stubborn) < 0.9 * rate(&bad), "{} {}", rate(&stubborn), rate(&bad));
}

#[test]
fn all_decisions_together_repeat_to_the_microsecond() {
    let mut scenario = scenario(Policy::Cost, 2);
    scenario.kv_tokens = Some(Tokens::new(30_000));
    scenario.routing.admission.mode = Mode::Peak;
    let (bytes, kept, takes) = (8 << 20, KEPT_DEFAULT, LOOK_UP_DEFAULT);
    scenario.cache = Some(AnswerCache { bytes, kept, takes });
    scenario.speculation = Some(Speculation {
        policy: speculate::Policy::Goodput,
        depth_max: 4,
        pass: Micros::new(450),
        acceptance: vec![vec![0.9, 0.7], vec![0.5]],
    });
    scenario.cascade = Some(CascadeScenario {
        draft: Catalogue::builtin().find("h100-tp1/llama-3-8b-fp8").unwrap(),
        workers: 1,
        settings: cascade::Settings { mode: cascade::Mode::Gate, ..cascade::Settings::default() },
        windows: None,
        kinds: RequestKind::ASSUMED.to_vec(),
    });
    let workload = "tenants:groups=6,prefix=1000,question=200,output=80,repeat=0.2,rate=25";
    let digest = |seed| run(&scenario, workload, 400, seed).recorder.digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn chances_that_cannot_be_are_refused() {
    let refused = |acceptance| {
        let mut scenario = scenario(Policy::Cost, 1);
        let (policy, pass) = (speculate::Policy::Goodput, Micros::new(450));
        scenario.speculation = Some(Speculation { policy, depth_max: 4, pass, acceptance });
        let none = Box::new(std::iter::empty::<Result<_, WorkloadError>>());
        simulate(&scenario, none, 1, &mut |_| {}).unwrap_err().to_string()
    };
    assert!(refused(vec![vec![0.5, 1.5]]).contains("`1.5` is no chance"));
    assert!(refused(Vec::new()).contains("without chances"));
    let kind = "0.5:2:1".parse::<RequestKind>().unwrap_err();
    assert!(kind.contains("`0.5:2:1` is no kind of request; expected WEIGHT:WORSE:SURPRISE"));
}

/// The samples that belong to a group.
fn of_group(simulated: &Simulated, is_of: impl Fn(Belongs) -> bool) -> Vec<Sample> {
    let samples = simulated.recorder.samples().iter();
    samples.filter(|sample| is_of(sample.belongs)).copied().collect()
}

#[test]
fn a_fleet_of_two_pools_answers_with_both_and_each_costs_its_own_price() {
    let mut scenario = scenario(Policy::Cost, 1);
    let slow = Catalogue::builtin().find("l4-tp1/llama-3-8b-int4").unwrap();
    scenario.others = vec![Pool { profile: slow.clone(), workers: 2 }];
    let told = run(&scenario, "unique:question=800,output=100,rate=60", 300, 1);
    let of = |pool| of_group(&told, |belongs| belongs.pool == Some(pool)).len();
    assert_eq!(of(0) + of(1), 300, "who was answered was answered by a pool");
    // One H100 computes several times what two L4 do.
    assert!(5 < of(1) && of(1) < of(0), "{} {}", of(0), of(1));
    let seconds = summary(&told).duration;
    let cost = scenario.profile.price_of(seconds) + 2.0 * slow.price_of(seconds);
    assert!((told.cost - cost).abs() < 1e-9 * cost, "{} {cost}", told.cost);
    let again = run(&scenario, "unique:question=800,output=100,rate=60", 300, 1);
    assert_eq!(told.recorder.digest(), again.recorder.digest());
}

#[test]
fn pools_that_cannot_be_are_refused() {
    let refused = |profile: &str, workers| {
        let mut scenario = scenario(Policy::Cost, 1);
        let profile = Catalogue::builtin().find(profile).unwrap();
        scenario.others = vec![Pool { profile, workers }];
        let none = Box::new(std::iter::empty());
        simulate(&scenario, none, 1, &mut |_| {}).unwrap_err().to_string()
    };
    let other = refused("h100-tp2/llama-3-70b-fp8", 1);
    assert!(other.contains("`llama-3-70b` beside one of `llama-3-8b`"), "{other}");
    assert!(refused("l4-tp1/llama-3-8b-int4", 0).contains("`0` workers"));
    assert!(refused("l4-tp1/llama-3-8b-int4", 5_000).contains("expected 1 to"));
}

/// More than two workers can take, before a gateway that lets wait.
fn crowded(mix: Mix) -> Simulated {
    let mut scenario = scenario(Policy::Cost, 2);
    scenario.routing.admission.mode = Mode::Reserve;
    scenario.kv_tokens = Some(Tokens::new(12_000));
    scenario.patience = all_alike(Micros::new(5_000_000));
    scenario.mix = mix;
    run(&scenario, "unique:question=400,output=300,spread=0.3,rate=25", 900, 1)
}

#[test]
fn what_matters_least_waits_longest_and_is_refused_first() {
    let told = crowded(Mix {
        priorities: Priority::ALL.map(|priority| (priority, 1.0)).to_vec(),
        tenants: Vec::new(),
    });
    let of = |priority| of_group(&told, |belongs| belongs.priority == Some(priority));
    let refused = Priority::ALL.map(|priority| {
        let all = of(priority);
        assert!(250 < all.len(), "a third of nine hundred");
        let refused = all.iter().filter(|sample| sample.fate == Fate::Refused).count();
        float(crate::float_conversion::length(refused))
            / float(crate::float_conversion::length(all.len()))
    });
    let [flex, default, priority] = refused;
    assert!(0.1 < flex && default < flex && priority <= default, "{refused:?}");
    let waited = |priority| {
        let firsts = of(priority);
        let firsts: Vec<_> = firsts.iter().filter_map(Sample::ttft).map(Micros::get).collect();
        firsts.iter().sum::<u64>() / crate::float_conversion::length(firsts.len()).max(1)
    };
    assert!(waited(Priority::Priority) < waited(Priority::Flex));
}

#[test]
fn a_tenant_that_asks_for_little_does_not_wait_behind_one_that_floods() {
    let told = crowded(Mix { priorities: Vec::new(), tenants: vec![9.0, 1.0] });
    let answered = |tenant| {
        let all = of_group(&told, |belongs| belongs.tenant == Some(tenant));
        let answered = all.iter().filter(|sample| sample.fate == Fate::Completed).count();
        float(crate::float_conversion::length(answered))
            / float(crate::float_conversion::length(all.len()))
    };
    assert!(answered(0) < 0.9, "{}", answered(0));
    assert!(answered(0) + 0.1 < answered(1), "{} {}", answered(0), answered(1));
}
