//! Load generator and simulator agreement, with each other and with other tools (S5, S6).
//!
//! Everything is the real binary in processes of its own. A simulated worker in real time is compared with
//! the discrete-event simulation of the same load, and `overdraft bench` with another tool on the same worker.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod binary;
mod peer;
mod realtime;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, judge, machine_load, save};

use self::peer::{Round, Told};
use self::realtime::{Figures, PROFILE, Pair, SCENES};
use crate::runtime;

/// How far times may be apart, in percent.
const TIMES_APART_MAX: f64 = 10.0;
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
    for scene in SCENES {
        let pair = scene.measure(&binary, arguments.quick).await?;
        row(&format!("{}, real time", pair.scene), &pair.real);
        row(&format!("{}, virtual time", pair.scene), &pair.simulated);
        pairs.push(pair);
    }
    let mut rounds = Vec::new();
    println!("\n{:<34}{:>12}{:>12}", "", "TTFT p50 ms", "TPOT p50 ms");
    let round_list = if arguments.quick { &ROUNDS_QUICK[..] } else { &ROUNDS[..] };
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
    let Figures { ttft_p50, ttft_mean, tpot_p50, tokens_per_second } = figures;
    println!(
        "{name:<22}{ttft_p50:>12.1}{ttft_mean:>12.1}{tpot_p50:>12.2}{tokens_per_second:>12.1}"
    );
}

/// How far two figures are apart, in percent of the second.
fn apart(one: f64, other: f64) -> f64 {
    (one / other - 1.0).abs() * 100.0
}

fn of_times(pair: &Pair) -> [Claim; 2] {
    let claim = |figure: &str, real: f64, simulated: f64| Claim {
        demonstration: "S5",
        figure: format!("realtime_{}_{figure}_apart_percent", pair.scene),
        measured: Ok(apart(real, simulated)),
        aim: Aim::AtMost(TIMES_APART_MAX),
    };
    [
        claim("ttft_p50", pair.real.ttft_p50, pair.simulated.ttft_p50),
        claim("throughput", pair.real.tokens_per_second, pair.simulated.tokens_per_second),
    ]
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
