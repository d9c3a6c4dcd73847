//! A cascade in a simulated fleet: drafts are given where they are as good, in time, and within the loss.

use super::*;

#[test]
fn a_cascade_gives_drafts_where_they_are_as_good_and_keeps_within_its_loss() {
    let mut scenario = scenario(Policy::Cost, 2);
    let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-fp8").unwrap();
    let settings = cascade::Settings {
        mode: cascade::Mode::Gate,
        loss: Ratio::percent(2),
        slowdown: None,
        ..cascade::Settings::default()
    };
    let kinds = vec![
        RequestKind { weight: 1.0, worse: 0.001, surprise: 0.05 },
        RequestKind { weight: 1.0, worse: 0.8, surprise: 1.5 },
    ];
    scenario.cascade =
        Some(CascadeScenario { draft: profile, workers: 1, settings, windows: None, kinds });
    let workload = "unique:question=200,output=60,rate=10";
    let simulated = run(&scenario, workload, 1_500, 5);
    let told = summary(&simulated);
    assert_eq!((told.offered, told.completed), (1_500, 1_500));
    let share = |part: u64| float(part) / 1_500.0;
    let Drafts { asked, served, worse } = simulated.drafts;
    assert!((0.25..0.6).contains(&share(served)), "{:?}", simulated.drafts);
    assert!(share(worse) <= 0.02 && served < asked, "{:?}", simulated.drafts);
    scenario.cascade.as_mut().unwrap().kinds.clear();
    let none = Box::new(std::iter::empty::<Result<_, WorkloadError>>());
    let refused = simulate(&scenario, none, 1, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("without kinds"), "{refused}");
}

#[test]
fn a_draft_that_takes_too_long_is_given_up_and_the_target_answers() {
    let mut scenario = scenario(Policy::Cost, 2);
    let workload = "unique:question=200,output=60,rate=20";
    let alone = summary(&run(&scenario, workload, 1_500, 5)).e2el.mean;
    // One small card for what two servers do.
    let draft = Catalogue::builtin().find("l4-tp1/llama-3-8b-int4").unwrap();
    let settings = |slowdown| cascade::Settings {
        mode: cascade::Mode::Gate,
        loss: Ratio::percent(2),
        slowdown,
        ..cascade::Settings::default()
    };
    let kinds = vec![RequestKind { weight: 1.0, worse: 0.001, surprise: 0.05 }];
    let mut with = |slowdown| {
        let (draft, kinds) = (draft.clone(), kinds.clone());
        let settings = settings(slowdown);
        scenario.cascade =
            Some(CascadeScenario { draft, workers: 1, settings, windows: None, kinds });
        run(&scenario, workload, 1_500, 5)
    };
    let any = with(None);
    let told = summary(&any);
    assert_eq!((told.offered, told.completed), (1_500, 1_500));
    assert!(0 < any.drafts.served, "{:?}", any.drafts);
    let default = summary(&with(cascade::Settings::default().slowdown));
    assert_eq!(default.completed, 1_500);
    assert!(default.e2el.mean <= 1.03 * alone, "{} {alone}", default.e2el.mean);
}

/// Two servers behind a draft pool, with drafts of that surprise, a cascade of that mode and such windows.
fn drafting(mode: cascade::Mode, windows: Option<cascade::Windows>, surprise: f64) -> Scenario {
    let mut scenario = scenario(Policy::Cost, 2);
    scenario.cascade = Some(CascadeScenario {
        draft: Catalogue::builtin().find("h100-tp1/llama-3-8b-fp8").unwrap(),
        workers: 1,
        settings: cascade::Settings {
            mode,
            loss: Ratio::percent(2),
            first: Tokens::new(24),
            slowdown: None,
            ..cascade::Settings::default()
        },
        windows,
        kinds: vec![RequestKind { weight: 1.0, worse: 0.001, surprise }],
    });
    scenario
}

const WINDOWS: cascade::Windows =
    cascade::Windows { first: Tokens::new(24), next: Tokens::new(48) };

#[test]
fn a_draft_that_is_judged_by_windows_is_shown_while_it_speaks() {
    let run = |windows| {
        let scenario = drafting(cascade::Mode::Gate, windows, 0.05);
        run(&scenario, "unique:question=200,output=200,rate=10", 1_500, 5)
    };
    let [whole, windowed] = [None, Some(WINDOWS)].map(run);
    for simulated in [&whole, &windowed] {
        let told = summary(simulated);
        assert_eq!((told.offered, told.completed), (1_500, 1_500));
        assert!(300 < simulated.drafts.served, "{:?}", simulated.drafts);
        assert!(simulated.recorder.samples().iter().all(|one| one.first_token.is_some()));
    }
    let [late, early] = [&whole, &windowed].map(|simulated| summary(simulated).ttft.mean);
    assert!(early < 0.7 * late, "{early} {late}");
}

#[test]
fn who_reads_a_draft_sees_every_pause_and_the_end_after_the_beginning() {
    for mode in [cascade::Mode::Gate, cascade::Mode::Verify] {
        for windows in [None, Some(WINDOWS)] {
            let scenario = drafting(mode, windows, 0.01);
            let simulated = run(&scenario, "unique:question=200,output=100,rate=10", 1_000, 5);
            let spans = simulated.recorder.samples().iter().map(|one| {
                let first = one.first_token.expect("all are answered");
                assert!(first <= one.ended, "{mode:?} {windows:?}: {one:?}");
                float(one.ended.since(first).get())
            });
            let (spans, gaps): (f64, f64) = (spans.sum(), float(simulated.recorder.gaps.sum()));
            let off = (gaps / spans - 1.0).abs();
            assert!(off < 1e-3, "{mode:?} {windows:?}: {gaps} of {spans} µs between tokens");
        }
    }
}

#[test]
fn what_the_target_does_not_accept_of_a_draft_it_says_itself() {
    for windows in [None, Some(WINDOWS)] {
        let scenario = drafting(cascade::Mode::Verify, windows, 0.02);
        let simulated = run(&scenario, "unique:question=200,output=60,rate=10", 1_000, 5);
        let told = summary(&simulated);
        assert_eq!((told.offered, told.completed), (1_000, 1_000));
        // With 0.98 for each token, some three in ten drafts are accepted whole.
        let Drafts { asked, served, worse } = simulated.drafts;
        assert_eq!((asked, worse), (1_000, 0));
        assert!((150..500).contains(&served), "{windows:?}: {served}");
        let mut alone = scenario.clone();
        alone.cascade = None;
        let alone = run(&alone, "unique:question=200,output=60,rate=10", 1_000, 5);
        let sizes = |simulated: &Simulated| {
            let samples = simulated.recorder.samples().iter();
            let mut sizes: Vec<_> = samples.map(|one| (one.prompt, one.output)).collect();
            sizes.sort_unstable();
            sizes
        };
        assert_eq!(sizes(&simulated), sizes(&alone), "{windows:?}");
    }
}
