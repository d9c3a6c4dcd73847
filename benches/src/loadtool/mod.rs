//! Load generator and simulator agreement, with each other and with other tools (S4, S5, S6).
//!
//! Everything is the real binary in processes of its own. A simulated worker in real time is compared with
//! the discrete-event simulation of the same load, and `overdraft bench` with another tool on the same worker.
//! Of a fleet behind the gateway every figure of the report is compared.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod peer;
mod realtime;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, machine_load, save};

use self::peer::{Round, Told};
use self::realtime::{Figures, PROFILE, Pair, SCENES, Scene};
use crate::runtime;

/// How far times may be apart, in percent.
const TIMES_APART_MAX: f64 = 10.0;
/// How far any figure of a fleet may be from its simulation, in percent.
const FIGURES_APART_MAX: f64 = 5.0;
/// How far the medians of two tools may be apart, in percent.
const TOOLS_APART_MAX: f64 = 5.0;

/// One user, with prompts so long that what a tool itself takes for a request hardly shows, and several whose
/// answers are computed together.
const ROUNDS: [Round; 2] = [
    Round { users: 1, requests: 60, prompt: 4_000 },
    Round { users: 4, requests: 200, prompt: 1_000 },
];
const ROUNDS_QUICK: [Round; 1] = [Round { users: 4, requests: 40, prompt: 1_000 }];

/// Compares times and tools.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// About a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Runs only this scene of real beside virtual time, and no other tool
    #[arg(long, value_name = "NAME", value_parser = SCENES.map(|scene| scene.name))]
    scene: Option<String>,
    /// The binary to try; by default the one beside this one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The folder of the Python environment that has `aiperf`
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers"))]
    peers: PathBuf,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    runtime()?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let binary = match arguments.binary.clone() {
        Some(binary) => binary,
        None => crate::binary::beside()?,
    };
    println!("workers are simulated: {PROFILE}; machine load {}", machine_load());
    let mut pairs = Vec::new();
    println!(
        "\n{:<22}{:>12}{:>12}{:>12}{:>12}",
        "", "TTFT p50 ms", "TTFT mean", "TPOT p50 ms", "tokens/s"
    );
    let is_wanted = |scene: &Scene| arguments.scene.as_ref().is_none_or(|name| name == scene.name);
    for scene in SCENES.into_iter().filter(is_wanted) {
        let pair = scene.measure(&binary, arguments.quick).await?;
        row(&format!("{}, real time", pair.scene), &pair.real);
        row(&format!("{}, virtual time", pair.scene), &pair.simulated);
        println!("{:<22}network, measured: {} ms one way", "", pair.network_ms);
        pairs.push(pair);
    }
    for pair in pairs.iter().filter(|pair| pair.is_fleet) {
        side_by_side(pair);
    }
    let mut rounds = Vec::new();
    let round_list = match (&arguments.scene, arguments.quick) {
        (Some(_), _) => &[][..],
        (None, true) => &ROUNDS_QUICK[..],
        (None, false) => &ROUNDS[..],
    };
    if !round_list.is_empty() {
        println!("\n{:<34}{:>12}{:>12}", "", "TTFT p50 ms", "TPOT p50 ms");
    }
    for round in round_list {
        let told = round.measure(&binary, &arguments.peers).await?;
        let (users, ours) = (told.users, told.ours);
        let line = |tool: &str, ttft: f64, tpot: f64| {
            println!("{:<34}{ttft:>12.2}{tpot:>12.2}", format!("{tool}, users: {users}"));
        };
        line("overdraft bench", ours.ttft, ours.tpot);
        if let Ok(theirs) = &told.theirs {
            line("aiperf", theirs.ttft, theirs.tpot);
        }
        rounds.push(told);
    }
    println!("\nmachine load {}", machine_load());
    if arguments.save {
        println!("raw results: {}", save("loadtool", &(&pairs, &rounds))?);
    }
    let claims: Vec<Claim> =
        pairs.iter().flat_map(of_times).chain(rounds.iter().flat_map(of_tools)).collect();
    Ok(judge(&claims))
}

fn row(name: &str, figures: &Figures) {
    let [first, first_mean, token, rate] =
        ["median_ttft_ms", "mean_ttft_ms", "median_tpot_ms", "output_throughput"]
            .map(|name| figures.get(name));
    println!("{name:<22}{first:>12.1}{first_mean:>12.1}{token:>12.2}{rate:>12.1}");
}

/// Every figure of a scene in both times, and how far simulated histories are from their median.
fn side_by_side(pair: &Pair) {
    println!(
        "\n{:<26}{:>14}{:>14}{:>9}{:>18}",
        pair.scene, "real time", "virtual time", "apart %", "histories, %"
    );
    for (name, real) in &pair.real.0 {
        let simulated = pair.simulated.get(name);
        let off = |figure: f64| (figure / simulated - 1.0) * 100.0;
        let each = pair.histories.iter().map(|history| off(history.get(name)));
        let (least, most) = (each.clone().fold(0.0, f64::min), each.fold(0.0, f64::max));
        let real_off = off(*real);
        println!(
            "{name:<26}{real:>14.2}{simulated:>14.2}{real_off:>+9.1}{least:>+9.1}{most:>+9.1}"
        );
    }
}

/// How far two figures are apart, in percent of the second.
fn apart(one: f64, other: f64) -> f64 {
    (one / other - 1.0).abs() * 100.0
}

fn of_times(pair: &Pair) -> Vec<Claim> {
    let claim = |demonstration, figure: &str, name: &str, most| Claim {
        demonstration,
        figure: format!("realtime_{}_{figure}_apart_percent", pair.scene),
        measured: Ok(apart(pair.real.get(name), pair.simulated.get(name))),
        aim: Aim::AtMost(most),
    };
    let first = claim("S5", "ttft_p50", "median_ttft_ms", TIMES_APART_MAX);
    let rate = claim("S5", "throughput", "output_throughput", TIMES_APART_MAX);
    let all = pair.real.0.keys().filter(|_| pair.is_fleet);
    let all = all.map(|name| claim("S4", name, name, FIGURES_APART_MAX));
    [first, rate].into_iter().chain(all).collect()
}

fn of_tools(told: &Told) -> [Claim; 2] {
    let claim = |figure: &str, of: fn(&peer::Medians) -> f64| Claim {
        demonstration: "S6",
        figure: format!("aiperf_{}_users_{figure}_p50_apart_percent", told.users),
        measured: told
            .theirs
            .as_ref()
            .map_err(Clone::clone)
            .map(|theirs| apart(of(&told.ours), of(theirs))),
        aim: Aim::AtMost(TOOLS_APART_MAX),
    };
    [claim("ttft", |medians| medians.ttft), claim("tpot", |medians| medians.tpot)]
}
