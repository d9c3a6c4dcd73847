//! Figures by hand, and what every page has to say.

use overdraft_units::{Instant, Micros, Tokens};

use super::*;

fn at(ms: u64) -> Instant {
    Instant::ORIGIN + Micros::new(ms * 1_000)
}

/// Sent `lag` after it was to be, first token after `ttft`, ten tokens at `tpot` each.
fn sample(intended: u64, lag: u64, ttft: u64, tpot: u64) -> Sample {
    Sample {
        intended: at(intended),
        sent: at(intended + lag),
        first_token: Some(at(intended + ttft)),
        ended: at(intended + ttft + 9 * tpot),
        prompt: Tokens::new(100),
        cached: Some(Tokens::new(25)),
        output: Tokens::new(10),
        fate: Fate::Completed,
        cause: None,
        belongs: Belongs::default(),
    }
}

fn run(label: &str, seed: u64, samples: &[Sample]) -> Run {
    let mut recorder = Recorder::new();
    for sample in samples {
        recorder.sample(*sample);
        recorder.tokens(sample.ended, u64::from(sample.output.get()));
        recorder.gap(Micros::new(20_000), sample.belongs);
    }
    Run::new(label.to_owned(), seed, recorder)
}

fn report(origin: Origin, runs: Vec<Run>) -> Report {
    Report {
        title: "a <title>".to_owned(),
        origin,
        settings: vec![("workload".to_owned(), "chat".to_owned())],
        objectives: "ttft:100,tpot:30".parse().unwrap(),
        runs,
    }
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-6 * wanted.abs().max(1.0), "{found} is not {wanted}");
}

#[test]
fn goodput_counts_over_all_offered_and_times_from_the_intended_sending() {
    let refused = Sample { first_token: None, fate: Fate::Refused, ..sample(0, 0, 10, 1) };
    let samples = [
        sample(0, 0, 50, 20),
        // In time after it was sent, and not after it should have been.
        sample(1_000, 80, 120, 20),
        sample(2_000, 0, 50, 40),
        refused,
    ];
    let summary = run("a", 1, &samples).summary(&"ttft:100 tpot:30".parse().unwrap());
    assert_eq!((summary.offered, summary.completed, summary.refused), (4, 3, 1));
    assert_eq!(summary.good, Some(1));
    near(summary.good_share(), 0.25);
    near(summary.ttft.median, 50.0);
    near(summary.tpot.median, 20.0);
    near(summary.lag.mean, 80.0 / 3.0);
    near(summary.duration, 2.41);
    near(summary.cached_share(), 0.25);
    assert!((summary.itl.median / 20.0 - 1.0).abs() < 1e-3, "{}", summary.itl.median);
}

#[test]
fn percentiles_are_between_the_nearest_two() {
    let spread = Spread::of((1..=5).map(f64::from).collect());
    near(spread.median, 3.0);
    near(spread.p90, 4.6);
    near(spread.std, 2_f64.sqrt());
    assert!(Spread::of(Vec::new()).median.is_nan(), "there is none");
}

#[test]
fn most_requests_at_once_are_counted() {
    let summary = |samples: &[Sample]| run("a", 1, samples).summary(&Objectives::default());
    let apart = [sample(0, 0, 10, 1), sample(19, 0, 10, 1)];
    assert_eq!(summary(&apart).peak_concurrency, 1);
    let over = [sample(0, 0, 10, 1), sample(18, 0, 10, 1), sample(5, 0, 100, 1)];
    assert_eq!(summary(&over).peak_concurrency, 3);
}

#[test]
fn one_run_is_told_in_the_words_of_vllm() {
    let text = report(Origin::Measured, vec![run("a", 1, &[sample(0, 0, 50, 20)])]).text();
    for line in [
        "============ Serving Benchmark Result ============\n",
        "Successful requests:                     1        \n",
        "Benchmark duration (s):                  0.23     \n",
        "---------------Time to First Token----------------\n",
        "Mean TTFT (ms):                          50.00    \n",
        "-----Time per Output Token (excl. 1st token)------\n",
        "P99 TPOT (ms):                           20.00    \n",
        "---------------Inter-token Latency----------------\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("SIMULATED"));
}

#[test]
fn what_was_simulated_says_so_everywhere() {
    let simulated = report(Origin::Simulated, vec![run("a", 1, &[sample(0, 0, 50, 20)])]);
    assert!(simulated.text().starts_with("SIMULATED"));
    assert!(simulated.html().contains("<p class=\"simulated\">Simulated"));
    assert_eq!(simulated.json()["simulated"], true);
    assert_eq!(simulated.json()["runs"][0]["mean_ttft_ms"], 50.0);
}

#[test]
fn labels_stand_side_by_side_with_intervals_over_seeds() {
    let one = |label, seed, ttft| run(label, seed, &[sample(0, 0, ttft, 20)]);
    let runs = vec![one("cost", 1, 40), one("cost", 2, 60), one("round-robin", 1, 300)];
    let report = report(Origin::Simulated, runs);
    let text = report.text();
    // 50 and 12.706 times the standard error of 10.
    assert!(text.contains("50.00 ±127.06"), "{text}");
    // Labels need not have equally many runs.
    for told in [&text, &report.html()] {
        assert!(told.contains("eans over seeds (cost: 2, round-robin: 1); "), "{told}");
    }
    assert!(text.contains("300.00"), "{text}");
    near(report.json()["estimates"]["cost"]["mean_ttft_ms"]["ci95"].as_f64().unwrap(), 127.06);
}

#[test]
fn the_page_needs_nothing_else_and_is_well_formed() {
    let runs =
        vec![run("a&b", 1, &[sample(0, 0, 50, 20), sample(10, 0, 90, 25)]), run("c", 1, &[])];
    let page = report(Origin::Measured, runs).html();
    assert!(page.contains("a &lt;title&gt;") && page.contains("a&amp;b"));
    assert!(!page.contains("http") && !page.contains("NaN") && !page.contains("inf"), "{page}");
    for tag in ["svg", "figure", "table", "tr", "td", "div", "span", "p"] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(page.matches("<svg").count(), 6);
}

#[test]
fn objectives_are_read_and_refused() {
    let told: Objectives = "ttft:500 tpot:50".parse().unwrap();
    assert_eq!(told.to_string(), "ttft:500 tpot:50");
    let refused = "ttlt:5".parse::<Objectives>().unwrap_err().to_string();
    assert!(refused.contains("`ttlt:5` is no objective; expected `ttft:500`"), "{refused}");
    assert!("ttft:-1".parse::<Objectives>().is_err());
}

#[test]
fn an_answer_without_a_first_token_meets_no_objective_on_it_and_misses_none() {
    let whole = Sample { first_token: None, ..sample(0, 0, 50, 20) };
    let mut of = run("a", 1, &[sample(0, 0, 50, 20), whole]);
    of.groups.tenants = vec!["acme".to_owned()];
    for sample in &mut of.recorder.samples {
        sample.belongs.tenant = Some(0);
    }
    let good = |objectives: &str| of.summary(&objectives.parse().unwrap()).good;
    assert_eq!((good("ttft:100"), good("tpot:30")), (None, None));
    assert_eq!(good("e2el:1000"), Some(2));
    let report = report(Origin::Simulated, vec![of]);
    assert!(report.json()["runs"][0]["request_goodput"].is_null());
    let text = report.text();
    assert!(text.contains("some answers were not streamed"), "{text}");
    let row = text.lines().find(|line| line.starts_with("acme")).unwrap();
    assert_eq!(row.split_whitespace().next_back(), Some("-"), "{row}");
}

#[test]
fn a_timeline_keeps_every_token_however_long_it_gets() {
    let mut timeline = timeline::Timeline::new();
    for second in 0..100_000_u64 {
        timeline.add(at(second * 1_000), 3);
    }
    let rates = timeline.rates();
    assert!(rates.len() <= 512);
    let width = rates[1].0 - rates[0].0;
    near(rates.iter().map(|(_, rate)| rate * width).sum::<f64>(), 300_000.0);
}

#[test]
fn the_most_in_a_second_is_that_of_a_second_however_long_a_run_is() {
    let mut timeline = timeline::Timeline::new();
    assert_eq!(timeline.most_in_a_second(), None, "nothing came");
    for (second, tokens) in [(5, 60), (5, 40), (6, 70), (90_000, 1)] {
        timeline.add(at(second * 1_000), tokens);
    }
    assert_eq!(timeline.most_in_a_second(), Some(100.0));
    assert!(timeline.rates().len() <= 512, "plots have fewer points");
}

#[test]
fn tokens_without_times_have_no_best_second() {
    let mut recorder = Recorder::new();
    recorder.sample(sample(0, 0, 50, 20));
    let report = report(Origin::Simulated, vec![Run::new("a".to_owned(), 1, recorder)]);
    assert!(report.json()["runs"][0]["max_output_tokens_per_s"].is_null());
    let title = "Peak output token throughput (tok/s):";
    assert!(report.text().contains(&format!("{title:<40} -")), "{}", report.text());
}

#[test]
fn equal_histories_have_equal_digests() {
    let digest = |ttft| run("a", 1, &[sample(0, 0, ttft, 20)]).recorder.digest();
    assert_eq!(digest(50), digest(50));
    assert_ne!(digest(50), digest(51));
}

/// A run of ten requests, whose first tokens take so long.
fn of_ttfts(label: &str, seed: u64, ttft: u64) -> Run {
    let samples: Vec<Sample> = (0..10).map(|at| sample(at * 100, 0, ttft, 20)).collect();
    run(label, seed, &samples)
}

#[test]
fn labels_are_compared_seed_by_seed_and_what_may_be_chance_is_said() {
    // Seeds differ far more than labels: only their pairs tell that `a` is faster than `b`.
    let seeds = [(1, 40, 45, 42), (2, 140, 146, 137), (3, 400, 404, 402)];
    let of =
        |(seed, a, b, c)| [of_ttfts("a", seed, a), of_ttfts("b", seed, b), of_ttfts("c", seed, c)];
    let mut runs: Vec<Run> = seeds.into_iter().flat_map(of).collect();
    runs.sort_by(|one, other| one.label.cmp(&other.label));
    let report = report(Origin::Simulated, runs);
    let told = report.json()["comparisons"].clone();
    let verdict = |pair: usize| &told[pair]["figures"]["mean_ttft_ms"]["verdict"];
    assert_eq!(told[0]["labels"], serde_json::json!(["a", "b"]));
    assert_eq!(verdict(0), "apart", "{told}");
    near(told[0]["figures"]["mean_ttft_ms"]["mean_difference"].as_f64().unwrap(), 5.0);
    assert_eq!(verdict(1), "cannot_be_told_apart", "{told}");
    assert_eq!(told[1]["figures"]["completed"]["verdict"], "equal");
    for told in [report.text(), report.html()] {
        assert!(told.contains("a and c cannot be told apart with 3 seeds by: "), "{told}");
        assert!(
            !told.contains("a and b cannot be told apart with 3 seeds by: Mean TTFT"),
            "{told}"
        );
    }
    let one_seed = report_of_one_seed().text();
    assert!(one_seed.contains("one seed: nothing tells which differences"), "{one_seed}");
}

#[test]
fn seeds_that_change_nothing_tell_no_interval_and_nothing_apart() {
    let seeds = |label: &'static str, ttft| (1..=4).map(move |seed| of_ttfts(label, seed, ttft));
    let report = report(Origin::Simulated, seeds("a", 40).chain(seeds("b", 60)).collect());
    let json = report.json();
    assert!(json["estimates"]["a"]["mean_ttft_ms"]["ci95"].is_null(), "{json}");
    let figures = &json["comparisons"][0]["figures"];
    assert_eq!(figures["mean_ttft_ms"]["verdict"], "cannot_be_told_apart", "{figures}");
    assert_eq!(figures["completed"]["verdict"], "equal", "{figures}");
    for told in [report.text(), report.html()] {
        assert!(told.contains("the seed changes nothing of a, b: "), "{told}");
        assert!(told.contains("eans over 4 seeds") && !told.contains('±'), "{told}");
        assert!(!told.contains("cannot be told apart with"), "{told}");
    }
}

fn report_of_one_seed() -> Report {
    report(Origin::Simulated, vec![of_ttfts("a", 1, 40), of_ttfts("b", 1, 90)])
}

#[test]
fn intervals_are_those_of_students_distribution_however_many_seeds_there_are() {
    // Half of the values are 0, half are 2: their deviation is known.
    for (seeds, quantile) in
        [(2, 12.706), (12, 2.201), (14, 2.160), (22, 2.080), (32, 2.040), (100, 1.984)]
    {
        let values: Vec<f64> = (0..seeds).map(|number| f64::from(number % 2) * 2.0).collect();
        let count = f64::from(seeds);
        let error = (1.0 / (count - 1.0)).sqrt();
        let half = Estimate::of(&values).half.expect("several seeds");
        assert!((half / error / quantile - 1.0).abs() < 1e-3, "{seeds}: {half}");
    }
}

#[test]
fn who_answered_nobody_has_no_times_and_no_price_and_is_in_no_mean() {
    let (fate, output) = (Fate::Refused, Tokens::ZERO);
    let refused = Sample { first_token: None, fate, output, ..sample(0, 0, 10, 1) };
    let mut recorder = Recorder::new();
    recorder.sample(refused);
    let silent = Run { cost: Some(3.0), ..Run::new("a".to_owned(), 3, recorder) };
    let alone = report(Origin::Simulated, vec![silent.clone()]);
    let json = alone.json();
    assert!(json["runs"][0]["p95_ttft_ms"].is_null(), "{json}");
    assert!(json["estimates"]["a"]["cost_per_million"]["mean"].is_null(), "{json}");
    let text = alone.text();
    for title in ["Mean TTFT (ms):", "P99 E2EL (ms):", "Cost ($ per million output tokens):"] {
        assert!(text.contains(&format!("{title:<40} -")), "{title}: {text}");
    }
    // With two seeds of three both labels have answers; none of the third counts as 0 ms.
    let mut runs = vec![of_ttfts("a", 1, 40), of_ttfts("a", 2, 60), silent];
    runs.extend([(1, 45), (2, 65), (3, 90)].map(|(seed, ttft)| of_ttfts("b", seed, ttft)));
    let json = report(Origin::Simulated, runs).json();
    near(json["estimates"]["a"]["mean_ttft_ms"]["mean"].as_f64().unwrap(), 50.0);
    let difference = &json["comparisons"][0]["figures"]["mean_ttft_ms"]["mean_difference"];
    near(difference.as_f64().unwrap(), 5.0);
}

#[test]
fn what_latencies_leave_out_stands_beside_them_with_its_reason() {
    let lost = |fate, cause| Sample { first_token: None, fate, cause, ..sample(0, 0, 10, 1) };
    let refused = lost(Fate::Refused, Some(Cause::QueueFull));
    let late = lost(Fate::Refused, Some(Cause::WaitedTooLong));
    let mut run =
        run("a", 1, &[sample(0, 0, 50, 20), refused, refused, late, lost(Fate::Failed, None)]);
    run.recorder.unasked(7);
    let report = report(Origin::Simulated, vec![run]);
    for told in [report.text(), report.html()] {
        for part in [
            "60.0 % of all offered were refused, 20.0 % failed",
            "queue was full 40.0 %",
            "waited too long at the gateway 20.0 %",
            "for a reason that is not told 20.0 %",
            "7 later turns were not asked",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    let told = &report.json()["runs"][0];
    near(told["refused_share"].as_f64().unwrap(), 0.6);
    let reasons = serde_json::json!({ "queue_full": 2, "waited_too_long": 1, "untold": 1 });
    assert_eq!(told["unanswered_by_reason"], reasons);
    assert_eq!(told["turns_not_asked"], 7);
    assert!(
        !self::report(Origin::Simulated, vec![self::run("a", 1, &[sample(0, 0, 5, 2)])])
            .text()
            .contains("latencies are those")
    );
}

#[test]
fn tenants_and_stages_have_times_between_tokens_of_their_own() {
    let mut recorder = Recorder::new();
    for (tenant, stage, gap) in [(0, 0, 10), (0, 1, 30), (1, 1, 50)] {
        let belongs = Belongs { tenant: Some(tenant), stage: Some(stage), ..Belongs::default() };
        recorder.sample(Sample { belongs, ..sample(0, 0, 50, 20) });
        recorder.gap(Micros::new(gap * 1_000), belongs);
    }
    let mut run = Run::new("a".to_owned(), 1, recorder);
    run.groups.tenants = vec!["acme".to_owned(), "globex".to_owned()];
    run.groups.stages = vec!["3/s".to_owned(), "10/s".to_owned(), "15/s".to_owned()];
    let report = report(Origin::Simulated, vec![run]);
    let told = &report.json()["runs"][0];
    let mean = |side: &str, place: usize| told[side][place]["mean_itl_ms"].as_f64();
    assert_eq!(told["by_tenant"][1]["name"], "globex");
    near(mean("by_tenant", 0).unwrap(), 20.0);
    near(mean("by_tenant", 1).unwrap(), 50.0);
    near(mean("by_stage", 0).unwrap(), 10.0);
    near(mean("by_stage", 1).unwrap(), 40.0);
    assert_eq!((&told["by_stage"][2]["num_prompts"], mean("by_stage", 2)), (&0.into(), None));
    assert!(told["by_pool"].is_null());
    let text = report.text();
    for part in ["By tenant", "By stage", "mean ITL ms", "globex", "15/s"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The load ended before this stage: nothing is told of it but that.
    let row = text.lines().find(|line| line.starts_with("15/s")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1..], ["0", "0", "0", "0", "0", "-", "-", "-", "-", "-", "-", "-"], "{row}");
}

#[test]
fn rates_of_tenants_add_up_to_those_of_the_run() {
    let of = |tenant, sample| Sample {
        belongs: Belongs { tenant: Some(tenant), ..Belongs::default() },
        ..sample
    };
    // The second tenant asks once, in the middle of the first one's second.
    let samples =
        [of(0, sample(0, 0, 50, 20)), of(1, sample(500, 0, 50, 20)), of(0, sample(770, 0, 50, 20))];
    let told = report(Origin::Simulated, vec![run("a", 1, &samples)]).json();
    let told = &told["runs"][0];
    for rate in ["request_throughput", "output_throughput", "total_token_throughput"] {
        let of = |row: &Value| row[rate].as_f64().unwrap();
        let parts: f64 = told["by_tenant"].as_array().unwrap().iter().map(of).sum();
        near(parts, of(told));
    }
}

#[test]
fn a_stage_makes_as_many_tokens_a_second_however_many_seeds_there_are() {
    let of_seed = |seed: u64| {
        let belongs = Belongs { stage: Some(0), ..Belongs::default() };
        let mut run = run("a", seed, &[Sample { belongs, ..sample(0, 0, 50, 50) }]);
        run.groups.stages = vec!["3/s".to_owned()];
        run
    };
    // Ten tokens in half a second, and twenty in two halves.
    for seeds in [1, 2] {
        let text = report(Origin::Simulated, (0..seeds).map(of_seed).collect()).text();
        let header = text.lines().find(|line| line.starts_with("By stage")).unwrap();
        assert!(header.ends_with("output tok/s  good %"), "{header}");
        let row = text.lines().find(|line| line.starts_with("3/s")).unwrap();
        assert_eq!(row.split_whitespace().rev().nth(1), Some("20.0"), "{seeds} seeds: {row}");
    }
}

#[test]
fn every_request_is_a_line_with_its_times_fate_and_place() {
    let belongs = Belongs { tenant: Some(0), worker: Some(3), ..Belongs::default() };
    let refused = Sample {
        first_token: None,
        fate: Fate::Refused,
        cause: Some(Cause::NoRoom),
        output: Tokens::ZERO,
        cached: None,
        ended: at(1_500),
        ..sample(1_500, 0, 10, 1)
    };
    let mut run = run("cost, tuned", 4, &[Sample { belongs, ..sample(1_000, 0, 50, 20) }, refused]);
    run.groups.tenants = vec!["a \"b\"".to_owned()];
    let mut csv = Vec::new();
    report(Origin::Simulated, vec![run]).write_requests(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    let [header, first, second] = lines[..] else { panic!("{csv}") };
    assert!(
        header.starts_with("label,seed,due_s,") && header.ends_with(",tenant,stage"),
        "{header}"
    );
    let expected = "\"cost, tuned\",4,1.000000,1.000000,1.050000,1.230000,50.000,20.000,230.000,100,25,10,\
                    completed,,3,,,\"a \"\"b\"\"\",";
    assert_eq!(first, expected);
    let expected =
        "\"cost, tuned\",4,1.500000,1.500000,,1.500000,,,0.000,100,,0,refused,no_room,,,,,";
    assert_eq!(second, expected);
}

#[test]
fn series_are_in_the_json_with_a_bounded_number_of_points_and_their_end() {
    let mut run = of_ttfts("a", 1, 40);
    let points: Vec<(f64, f64)> = (0..601).map(|place| (f64::from(place), 1.0)).collect();
    let (key, name) = ("running", "Requests that run");
    run.series = vec![Series { key, name, points }];
    let told = report(Origin::Simulated, vec![run]).json();
    let points = told["runs"][0]["series"]["running"].as_array().unwrap().clone();
    assert!((100..=200).contains(&points.len()), "{}", points.len());
    assert_eq!(points.last().unwrap(), &serde_json::json!([600.0, 1.0]));
    assert!(told["runs"][0]["series"]["output_tokens_per_s"].is_array());
}
