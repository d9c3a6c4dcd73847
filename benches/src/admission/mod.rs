//! Admission bench: predicted peak against thresholds on metrics that are a second old (S2),
//! against fixed limits under sustained load (S1), and tenant isolation (S6).
//!
//! Simulated, in virtual time: the gateway's own router and queue before workers that are the
//! engine's own scheduler with a cost for each step, sized as a 70B model on two GPUs. Under each
//! rule the same arrivals come, in bursts, somewhat more than the workers can serve; what differs
//! is who is started when. Told are tokens of answers a second, and requests that lost their cache
//! and were computed again.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod load;
mod rule;
mod simulation;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, save};
use serde::Serialize;

use self::load::Workload;
use self::rule::Rule;
use self::simulation::{Figures, simulate};

/// Measures admission rules in simulated time.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// One rule before one workload, the mean over all seeds.
#[derive(Serialize)]
struct Row {
    workload: &'static str,
    rule: String,
    figures: Figures,
    seeds: Vec<Figures>,
}

/// Most preemptions that the predicted peak may have beside a threshold's.
const PREEMPTIONS_SHARE_MAX: f64 = 0.1;

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (seeds, seconds) = if arguments.quick { (3, 480) } else { (5, 1_200) };
    println!(
        "simulated: 2 workers of 217,600 tokens with metrics a second old, or of 12,000 (burst, shared,\n\
         flooded); {seeds} seeds\n"
    );
    println!(
        "{:<13}{:<16}{:>9}{:>9}{:>11}{:>13}{:>11}{:>9}{:>9}",
        "workload",
        "rule",
        "tokens/s",
        "no flex",
        "preempted",
        "per 1,000",
        "recomputed",
        "TTFT p50",
        "p95"
    );
    let mut rows = Vec::new();
    for workload in Workload::ALL {
        for rule in Rule::of(workload) {
            let seeds: Vec<Figures> =
                (1..=seeds).map(|seed| simulate(workload, rule, seed, seconds)).collect();
            let figures = Figures::mean(&seeds);
            figures.print(workload.name(), &rule.name());
            rows.push(Row { workload: workload.name(), rule: rule.name(), figures, seeds });
        }
    }
    if arguments.save {
        println!("raw results: {}", save("admission", &rows)?);
    }
    let claims = claims(&rows);
    println!();
    Ok(judge(&claims))
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = beside_thresholds(rows);
    claims.extend(beside_limits(rows));
    claims.extend(beside_a_flood(rows));
    claims
}

/// What a rule made of a workload.
fn figures(rows: &[Row], workload: Workload, rule: Rule) -> Option<Figures> {
    let named = |row: &&Row| row.workload == workload.name() && row.rule == rule.name();
    rows.iter().find(named).map(|row| row.figures)
}

/// Goodput over that of the best limit, and first tokens beside a flood over those without.
const GOODPUT_MIN: f64 = 0.95;
const FLOODED_MAX: f64 = 1.2;

/// The predicted peak against the best static limit of a sweep, whatever that one overdraws.
fn beside_limits(rows: &[Row]) -> Vec<Claim> {
    let of = |rule: Rule| figures(rows, Workload::Burst, rule);
    let limits = Rule::of(Workload::Burst).into_iter().filter(|rule| rule.is_static());
    let best = limits.filter_map(of).map(|one| one.useful_per_second).fold(f64::NAN, f64::max);
    let Some(peak) = of(Rule::Peak) else { return Vec::new() };
    let claim = |figure: &str, measured: f64, aim| Claim {
        demonstration: "S1",
        figure: format!("simulated_burst_{figure}"),
        measured: Ok(measured),
        aim,
    };
    vec![
        claim("preemptions", peak.preempted, Aim::AtMost(0.0)),
        claim("goodput", peak.useful_per_second / best, Aim::AtLeast(GOODPUT_MIN)),
    ]
}

/// First tokens of a tenant beside one that asks for ten times its share, and for its share.
fn beside_a_flood(rows: &[Row]) -> Option<Claim> {
    let p95 = |workload| Some(figures(rows, workload, Rule::Peak)?.first_token_p95);
    Some(Claim {
        demonstration: "S6",
        figure: "simulated_flooded_ttft_p95_ratio".to_owned(),
        measured: Ok(p95(Workload::Flooded)? / p95(Workload::Shared)?),
        aim: Aim::AtMost(FLOODED_MAX),
    })
}

/// The predicted peak against the better of the two thresholds, in each figure.
fn beside_thresholds(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for workload in [Workload::Chat, Workload::LongOutput] {
        let of = |rule: Rule| figures(rows, workload, rule);
        let thresholds: Vec<Figures> = Rule::THRESHOLDS.into_iter().filter_map(of).collect();
        let Some(peak) = of(Rule::Peak) else { continue };
        let most = thresholds.iter().map(|one| one.tokens_per_second).fold(0.0, f64::max);
        let fewest =
            thresholds.iter().map(|one| one.preempted_permille).fold(f64::INFINITY, f64::min);
        let claim = |figure: &str, measured: f64, aim| Claim {
            demonstration: "S2",
            figure: format!("{}_{figure}", workload.name()),
            measured: Ok(measured),
            aim,
        };
        claims.push(claim("tokens", peak.tokens_per_second / most, Aim::AtLeast(1.0)));
        let share = peak.preempted_permille / fewest;
        claims.push(claim("preemptions", share, Aim::AtMost(PREEMPTIONS_SHARE_MAX)));
    }
    claims
}
