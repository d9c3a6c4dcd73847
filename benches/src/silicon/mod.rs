//! GPU model accuracy: the error of the cost model against measured GPUs (S1).
//!
//! Published end-to-end measurements, a closed loop of so many clients each, are repeated in virtual
//! time: the engine's own scheduler, steps that take as long as the profile says. The measurements are
//! not part of the project; without them the bench says where it looked and what is missing.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod points;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::judge;
use overdraft_gpu_model::Catalogue;

use self::points::{Kind, read, read_experts};
use self::report::Report;

/// Measures the cost model of GPUs against published figures.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of public traces; `validation/` in it holds the measurements
    #[arg(long, env = "OVERDRAFT_TRACES", value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Leaves out the points that nothing was fitted to
    #[arg(long)]
    quick: bool,
    /// `silicon_sample.csv` of `AIConfigurator`, to compare its points of models with experts as well
    #[arg(long, value_name = "FILE")]
    experts: Option<PathBuf>,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let folder = arguments.traces.clone().unwrap_or(beside);
    let report = match read(&folder)? {
        None => Report::without(&folder),
        Some(mut points) => {
            points.retain(|point| !arguments.quick || point.kind != Kind::HeldOut);
            Report::of(&Catalogue::builtin(), points)?
        }
    };
    report.print();
    if let Some(file) = &arguments.experts {
        Report::of(&Catalogue::builtin(), read_experts(file)?)?.print_by_profile();
    }
    if arguments.save {
        println!("raw results: {}", report.save()?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}
