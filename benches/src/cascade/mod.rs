//! Cascade bench: whether quality stays within its target, and the savings (S1, S2, S4, S5).
//!
//! S1 is measured: both demo models answer held-out questions through the engine. The gate's curve of accuracy over
//! the share that never touches the target stands beside four others: the draft alone, the target alone, mixing at
//! random, and a threshold on the mean log probability. S2 and S5 are simulated requests, told apart as such: a route whose draft gets
//! worse in the middle, and one whose draft is useless. S4, and S5 once more with a draft of random weights, are measured
//! through the real binary: gateway and workers in processes of their own.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod answers;
mod curve;
mod plot;
mod served;
mod shift;
mod useless;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use overdraft_claims::{Claim, judge, save};
use serde_json::json;

/// Measures the cascade's decisions.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results and the plot under benches/runs/
    #[arg(long)]
    save: bool,
    /// The binary that serves the streams; by default the one beside this one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let served = served::measure(arguments.binary.clone(), if arguments.quick { 24 } else { 200 })?;
    let asked = answers::ask(arguments.quick)?;
    let curve = curve::measure(&asked);
    curve.print();
    let shift = shift::simulate(if arguments.quick { 3 } else { 8 });
    shift.print();
    let useless = useless::simulate(if arguments.quick { 100 } else { 400 });
    useless.print();
    served.print();
    if arguments.save {
        let results = json!({
            "questions": asked.iter().map(answers::Asked::told).collect::<Vec<_>>(),
            "curve": &curve, "shift": &shift, "useless": &useless, "served": &served,
        });
        let path = save("cascade", &results)?;
        let plot = Path::new(&path).with_extension("svg");
        std::fs::write(&plot, plot::svg(&curve))
            .with_context(|| format!("`{}` cannot be written", plot.display()))?;
        println!("\nraw results: {path}\nplot: {}", plot.display());
    }
    let claims: Vec<Claim> = [curve.claims(), shift.claims(), served.claims(), useless.claims()]
        .into_iter()
        .flatten()
        .collect();
    println!();
    Ok(judge(&claims))
}
