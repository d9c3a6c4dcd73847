//! Cascade simulation: whether the gate pays for good drafts and does no harm for bad ones.
//!
//! Requests are simulated in virtual time; the decisions are the core's. Each draw is a draft of
//! its own: its quality and how well its confidence shows it, its speed, and whether it fails,
//! hangs, is overloaded, changes in the middle or is wrong for one tenant. There are two baselines:
//! the target alone, with the same times to the microsecond, and the best gate with a fixed threshold.
//! That threshold is chosen in hindsight among all that keep to the loss and to the slowdown.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod draw;
mod fixed;
mod pool;
mod run;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use overdraft_claims::{Aim, Claim, as_float, judge, percentile, save};
use serde::Serialize;

use self::draw::World;
use self::run::Outcome;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates a gate before drawn drafts.
#[derive(Parser)]
#[command(name = "drafts")]
struct Arguments {
    /// Forty draws instead of two hundred
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// What the draws begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this draw, counted from one
    #[arg(long)]
    only: Option<u64>,
}

/// Requests of a draw in which clients may wait no longer, whatever is still to be learnt.
const BOUND_REQUESTS: usize = 2_000;
/// Requests of a draw after which a gate has learnt what it can: what it saves is counted from there on.
const LEARNT_REQUESTS: usize = 4_000;
/// All of them.
const REQUESTS: usize = 6_000;
/// How much longer clients may wait.
const SLOWER_MAX: f64 = 1.03;
/// What the best fixed gate saves of the target's price for a draft to be one that pays.
const PAYS_MIN: f64 = 0.05;

/// A draw and what came of it.
#[derive(Debug, Serialize)]
struct Row {
    world: World,
    outcome: Outcome,
    best_fixed_saving: f64,
}

impl Row {
    fn is_slow(&self) -> bool {
        SLOWER_MAX < self.outcome.first.max(self.outcome.end)
    }

    fn pays(&self) -> bool {
        PAYS_MIN <= self.best_fixed_saving
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let draws = if arguments.quick { 40 } else { 200 };
    println!(
        "SIMULATED: {draws} drawn drafts, {REQUESTS} requests each; decisions are the core's\n"
    );
    let places = arguments.only.map_or(1..=draws, |only| only..=only);
    let mut rows: Vec<Row> = Vec::new();
    for place in places {
        let world = World::draw(arguments.seed, place);
        let requests = world.requests(REQUESTS);
        let outcome = run::gate(&world, &requests);
        let best_fixed_saving = fixed::best(&world, &requests);
        rows.push(Row { world, outcome, best_fixed_saving });
    }
    print(&rows);
    if arguments.save {
        println!("\nraw results: {}", save("drafts", &rows)?);
    }
    let claims = claims(&rows);
    println!();
    Ok(judge(&claims))
}

/// What promises come to.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let share = |part: usize, of: usize| as_float(part) / as_float(of.max(1));
    let claim = |figure: &str, measured: f64, aim| Claim {
        demonstration: "S6",
        figure: figure.to_owned(),
        measured: Ok(measured),
        aim,
    };
    let worst = |of: fn(&Outcome) -> f64| {
        rows.iter().map(|row| of(&row.outcome)).fold(f64::NEG_INFINITY, f64::max)
    };
    let within = rows.iter().filter(|row| row.outcome.is_loss_within_interval()).count();
    let paying: Vec<&Row> = rows.iter().filter(|row| row.pays()).collect();
    let saved: f64 = paying.iter().map(|row| row.outcome.saving).sum();
    let best: f64 = paying.iter().map(|row| row.best_fixed_saving).sum();
    vec![
        claim("worst_first_token_times", worst(|one| one.first), Aim::AtMost(SLOWER_MAX)),
        claim("worst_end_times", worst(|one| one.end), Aim::AtMost(SLOWER_MAX)),
        claim("loss_within_interval_share", share(within, rows.len()), Aim::AtLeast(0.95)),
        claim("saving_of_best_fixed_share", saved / best.max(1e-9), Aim::AtLeast(0.9)),
    ]
}

fn print(rows: &[Row]) {
    println!(
        "{:>4}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}  draft",
        "draw", "first", "end", "loss %", "low", "high", "saving", "best"
    );
    let wanted = |row: &&Row| {
        let poor = row.pays() && row.outcome.saving < 0.9 * row.best_fixed_saving;
        rows.len() <= 3 || row.is_slow() || poor || !row.outcome.is_loss_within_interval()
    };
    for row in rows.iter().filter(wanted) {
        let Outcome { first, end, loss, low, high, saving, .. } = row.outcome;
        println!(
            "{:>4}{first:>9.3}{end:>9.3}{:>9.2}{:>9.2}{:>9.2}{saving:>9.3}{:>9.3}  {}",
            row.world.place,
            100.0 * loss,
            100.0 * low,
            100.0 * high,
            row.best_fixed_saving,
            row.world
        );
    }
    let quantiles = |of: fn(&Row) -> f64| {
        [50, 90, 100].map(|percent| percentile(rows.iter().map(of).collect(), percent))
    };
    let paying = rows.iter().filter(|row| row.pays()).count();
    println!(
        "\n{} draws, {paying} of which pay; first {:.3?}, end {:.3?} (median, p90, worst); money lost where it does \
         not pay {:.3?}",
        rows.len(),
        quantiles(|row| row.outcome.first),
        quantiles(|row| row.outcome.end),
        quantiles(|row| if row.pays() { 0.0 } else { -row.outcome.saving_from_start }),
    );
}
