//! Checks of what is under `deploy/`: chart, overlays, rules, dashboards, image, unit and packages.
//!
//! The checks themselves are Python (`deploy/tests/check.py`), because the tools for Kubernetes' schemas and Helm are;
//! they install these into a virtual environment under the target folder and say what they skip.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask deploy\n  cargo xtask deploy --write    # the chart's README anew"
)]
pub(crate) struct Arguments {
    /// Writes what is generated anew
    #[arg(long)]
    write: bool,
    /// A check that has to be skipped for want of a tool is a failure
    #[arg(long)]
    strict: bool,
    /// The program promtool; by default the one on the path
    #[arg(long, value_name = "PROGRAM")]
    promtool: Option<PathBuf>,
    /// The program `overdraft` that reads configurations and names metrics; by default it is built
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
}

/// Runs all checks and fails when one finds something.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = if let Some(binary) = &arguments.binary {
        binary.clone()
    } else {
        shell::cargo(&["build", "--locked", "--package", "overdraft", "--features", "kubernetes"])?;
        shell::target().join("debug").join("overdraft")
    };
    let mut command = Command::new("python3");
    command.arg(shell::root().join("deploy/tests/check.py"));
    command.arg("--venv").arg(shell::target().join("deploy-venv")).arg("--binary").arg(binary);
    if let Some(promtool) = &arguments.promtool {
        command.arg("--promtool").arg(promtool);
    }
    command.args(arguments.write.then_some("--write")).args(arguments.strict.then_some("--strict"));
    let status = command.status().context("`python3` could not be started")?;
    if !status.success() {
        bail!("what is deployed has faults");
    }
    Ok(())
}
