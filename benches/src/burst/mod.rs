//! Burst bench: whether admission control keeps an overloaded fleet alive, and its cost (S1, S6).
//!
//! The workers are the real binary in processes of their own, simulated at a GPU's pace, and they die
//! where a running request finds no room in the cache. The gateway is the real one, in this process.
//! Three times what the fleet can do is offered to it, unguarded, guarded, and under a sweep of static
//! limits. Then one tenant floods another.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::disallowed_methods, reason = "a bench ends what it spawns with its runtime")]

mod client;
mod fleet;
mod load;
mod plan;
mod report;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::judge;

use self::plan::Plan;
use self::report::Report;
use crate::runtime;

/// Measures admission before workers that die when they are overdrawn.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A minute or two; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// The binary whose workers are simulated; by default the one beside this one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    runtime()?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let plan = if arguments.quick { Plan::QUICK } else { Plan::FULL };
    let binary = match arguments.binary.clone() {
        Some(binary) => binary,
        None => crate::binary::beside()?,
    };
    let runs = plan.measure(&binary).await?;
    let report = Report { runs, machine_load: overdraft_claims::machine_load() };
    report.print();
    if arguments.save {
        println!("raw results: {}", report.save()?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}
