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
        belongs: Belongs::default(),
    }
}

fn run(label: &str, seed: u64, samples: &[Sample]) -> Run {
    let mut recorder = Recorder::new();
    for sample in samples {
        recorder.sample(*sample);
        recorder.tokens(sample.ended, u64::from(sample.output.get()));
        recorder.gap(Micros::new(20_000));
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
    assert_eq!(Spread::of(Vec::new()), Spread::default());
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
fn equal_histories_have_equal_digests() {
    let digest = |ttft| run("a", 1, &[sample(0, 0, ttft, 20)]).recorder.digest();
    assert_eq!(digest(50), digest(50));
    assert_ne!(digest(50), digest(51));
}
