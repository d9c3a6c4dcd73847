//! Routing bench: the gain of the cost policy, and load spread without metrics (S1, S4, S5).
//!
//! The real gateway stands before four real worker servers on this machine, over sockets; only the
//! model is simulated: it sleeps for as long as a GPU would compute. See `fleet` for the time model,
//! `load` for what is sent, `plan` for what is compared.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod client;
mod fleet;
mod load;
mod plan;
mod report;
mod spread;

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::judge;

use self::plan::Plan;
use self::report::Report;
use crate::runtime;

/// Measures routing policies before a simulated fleet.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    runtime()?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let plan = if arguments.quick { Plan::QUICK } else { Plan::FULL };
    let spread = spread::measure(plan.cancelled_of).await?;
    let runs = plan.measure().await?;
    let report = Report { runs, spread, machine_load: overdraft_claims::machine_load() };
    report.print();
    if arguments.save {
        println!("raw results: {}", report.save()?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}
