//! Cost of being resumable: the gateway that keeps what it has told beside one that does not (S8).
//!
//! Two gateways stand before one instant worker that speaks as vLLM does. One resumes streams, as is the default: it asks
//! for token ids, takes them out of each chunk and keeps them with the text. The other has `resume.mode: off`. Both
//! relay the same streams at the same time, each tells the CPU time that it has used, and the median of their ratios over
//! rounds is judged.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, judge, machine_load, median, save};
use serde::Serialize;

use crate::gateway::child::Process;
use crate::gateway::load::{self, Volume};
use crate::gateway::meter::until_ready;
use crate::gateway::mock::CHUNKS;
use crate::runtime;

/// Most that a chunk may cost, as a multiple of what it costs without.
const RATIO_MAX: f64 = 1.05;
/// Streams at once.
const STREAMS: usize = 32;
const ROUNDS: usize = 31;
const ROUNDS_QUICK: usize = 9;

/// Measures what it costs that streams can be resumed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// CPU-µs per chunk, a figure per round.
#[derive(Debug, Default, Serialize)]
struct Figures {
    off: Vec<f64>,
    resumable: Vec<f64>,
    machine_load: String,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rounds = if arguments.quick { ROUNDS_QUICK } else { ROUNDS };
    let figures = runtime()?.block_on(measure(rounds))?;
    table(&figures);
    if arguments.save {
        println!("raw results: {}", save("resume", &figures)?);
    }
    Ok(judge(&[Claim {
        demonstration: "S8",
        figure: "resumable_chunk_cpu_ratio".to_owned(),
        measured: Ok(ratio(&figures)),
        aim: Aim::AtMost(RATIO_MAX),
    }]))
}

async fn measure(rounds: usize) -> Result<Figures> {
    let mut figures = Figures { machine_load: machine_load(), ..Figures::default() };
    let worker = Process::start(&["mock"]).await?;
    let to = worker.address.to_string();
    let mut off = Process::start(&["unresumed", &to]).await?;
    let mut resumable = Process::start(&["proxied", &to]).await?;
    until_ready(off.address).await?;
    until_ready(resumable.address).await?;
    let request = load::streamed();
    let volume = Volume { requests: STREAMS, connections: STREAMS };
    let chunks = as_float(STREAMS * CHUNKS);
    for round in 0..=rounds {
        let before = (off.cpu_us().await?, resumable.cpu_us().await?);
        tokio::try_join!(
            load::run(off.address, &request, volume),
            load::run(resumable.address, &request, volume),
        )?;
        let after = (off.cpu_us().await?, resumable.cpu_us().await?);
        // The first one fills pools, and the engine is learnt meanwhile.
        if 0 < round {
            figures.off.push((after.0 - before.0) / chunks);
            figures.resumable.push((after.1 - before.1) / chunks);
        }
    }
    for process in [off, resumable, worker] {
        process.finish().await?;
    }
    Ok(figures)
}

/// What a chunk costs where its stream can be resumed, as a multiple of what it costs without: the median over rounds.
fn ratio(figures: &Figures) -> f64 {
    let pairs = figures.resumable.iter().zip(&figures.off);
    median(pairs.map(|(resumable, off)| resumable / off).collect())
}

fn table(figures: &Figures) {
    println!("CPU-µs per chunk, {STREAMS} streams     least   median     most");
    for (what, costs) in [("resume off", &figures.off), ("resumable", &figures.resumable)] {
        let least = costs.iter().copied().fold(f64::NAN, f64::min);
        let most = costs.iter().copied().fold(f64::NAN, f64::max);
        println!("{what:<30}{least:>9.2}{:>9.2}{most:>9.2}", median(costs.clone()));
    }
    println!("machine load at the start (1, 5, 15 minutes): {}", figures.machine_load);
}
