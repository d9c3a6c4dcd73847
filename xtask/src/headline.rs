//! The write-ups' headline figures, simulated: builds the report in release mode and runs it.
//!
//! It is a package of its own because it needs neither engine nor gateway: it builds in a few minutes.

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// About a minute once built; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Only these parts, with commas between them: pace, llm-d, ladder, tenants, documents, control,
    /// speculation, answers, burst, cost
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// Simulates the headline figures and checks the claims.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let package = "overdraft-headline";
    let mut command = vec!["run", "--release", "--locked", "--quiet", "--package", package, "--"];
    if arguments.quick {
        command.push("--quick");
    }
    if arguments.save {
        command.push("--save");
    }
    if let Some(parts) = &arguments.only {
        command.extend(["--only", parts]);
    }
    shell::cargo(&command)
}
