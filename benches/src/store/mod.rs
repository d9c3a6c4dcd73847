//! Shared state bench: the cost of peer sync between two gateways, and its failures (S4, S5).
//!
//! Two real gateways in this process before two workers that answer at once, and a real redis-server.
//! A worker is turned to 500, and what is told is how long after one gateway's breaker the other's
//! opens, and how often they tried between them. Then the server is killed, frozen, filled, given
//! another password and wiped under 200 requests a second, each of which counts against a key's
//! budget: errors, and what the slowest take longer than without the fault.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::disallowed_methods, reason = "a bench ends what it spawns with its runtime")]

mod client;
mod fault;
mod fleet;
mod spread;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, machine_load, save};
use serde::Serialize;

use self::fault::{Fault, Strike};
use self::spread::{Spread, Windows};
use crate::runtime;

/// Measures what gateways share through Redis.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// All that was measured.
#[derive(Serialize)]
struct Report {
    spread: Spread,
    windows: Windows,
    strikes: Vec<Strike>,
    machine_load: String,
}

/// From one gateway's breaker to the other's, in milliseconds.
const SPREAD_MAX_MS: f64 = 100.0;
/// Trials for each time that a breaker is due for one.
const TRIALS_MAX: f64 = 1.0;
/// What a fault may add to the 99th percentile once it is known, in milliseconds.
const ADDED_MAX_MS: f64 = 5.0;

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = runtime()?.block_on(measure(arguments.quick))?;
    println!("\nmachine load (1, 5, 15 minutes): {}", report.machine_load);
    if arguments.save {
        println!("raw results: {}", save("store", &report)?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}

async fn measure(quick: bool) -> Result<Report> {
    let (rounds, failures, seconds) = if quick { (5, 1, 3) } else { (20, 5, 10) };
    let spread = spread::openings(rounds).await?;
    println!(
        "breakers opened {rounds} times: the other gateway's after {:.0} ms (median), {:.0} ms (longest)",
        spread.median_ms(),
        spread.longest_ms()
    );
    let windows = spread::trials(failures).await?;
    println!(
        "two gateways, {} windows of a worker that fails: {} trials",
        windows.windows, windows.trials
    );
    println!(
        "\n{:<10}{:>10}{:>8}{:>12}{:>12}{:>14}",
        "fault", "requests", "errors", "p99 before", "p99 after", "mended after"
    );
    let mut strikes = Vec::new();
    for fault in Fault::ALL {
        let strike = fault::strike(fault, seconds).await?;
        println!(
            "{:<10}{:>10}{:>8}{:>9.2} ms{:>9.2} ms{:>11.0} ms",
            strike.fault,
            strike.requests,
            strike.errors,
            strike.p99_before_ms,
            strike.p99_after_ms,
            strike.mended_ms
        );
        strikes.push(strike);
    }
    Ok(Report { spread, windows, strikes, machine_load: machine_load() })
}

impl Report {
    fn claims(&self) -> Vec<Claim> {
        let claim = |demonstration, figure: String, measured: f64, aim| Claim {
            demonstration,
            figure,
            measured: Ok(measured),
            aim,
        };
        let spread = self.spread.longest_ms();
        let each = self.windows.trials_each();
        let mut claims = vec![
            claim("S4", "opened_elsewhere_ms".to_owned(), spread, Aim::AtMost(SPREAD_MAX_MS)),
            claim("S4", "trials_per_window".to_owned(), each, Aim::AtMost(TRIALS_MAX)),
        ];
        for strike in &self.strikes {
            let named = |figure: &str| format!("{}_{figure}", strike.fault);
            let errors = overdraft_claims::as_float(strike.errors);
            claims.push(claim("S5", named("errors"), errors, Aim::AtMost(0.0)));
            let added = strike.p99_after_ms - strike.p99_before_ms;
            claims.push(claim("S5", named("added_p99_ms"), added, Aim::AtMost(ADDED_MAX_MS)));
        }
        claims
    }
}
