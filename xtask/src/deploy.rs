//! Checks of what is under `deploy/`: chart, overlays, rules, dashboards, image, unit and packages.
//!
//! The checks themselves are Python (`deploy/tests/check.py`), because the tools for Kubernetes' schemas and Helm are;
//! they install these into a virtual environment under the target folder and say what they skip.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask deploy\n  cargo xtask deploy --write    # the chart's README anew\n  cargo xtask deploy --live --prometheus PATH"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Arguments {
    /// Writes what is generated anew
    #[arg(long)]
    write: bool,
    /// Runs alerts, dashboards and traces against a real Prometheus and a real collector instead: twenty minutes
    #[arg(long)]
    live: bool,
    /// The program prometheus; by default the one on the path
    #[arg(long, value_name = "PROGRAM", default_value = "prometheus")]
    prometheus: PathBuf,
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
    if arguments.live {
        return live(&binary, &arguments.prometheus);
    }
    let mut command = Command::new("python3");
    command.arg(shell::root().join("deploy/tests/check.py"));
    command.arg("--venv").arg(shell::target().join("deploy-venv")).arg("--binary").arg(binary);
    if let Some(promtool) = &arguments.promtool {
        command.arg("--promtool").arg(promtool);
    }
    command.args(arguments.write.then_some("--write")).args(arguments.strict.then_some("--strict"));
    succeed(&mut command)
}

/// Runs what takes real servers: every alert in its scenario, every query of a dashboard, traces through a collector.
fn live(binary: &Path, prometheus: &Path) -> Result<()> {
    let tests = shell::root().join("deploy/tests");
    let environment = shell::target().join("live-venv");
    let python = environment.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let requirements = tests.join("live-requirements.txt");
    succeed(
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements),
    )?;
    let script = |name: &str| {
        let mut command = Command::new(&python);
        command.arg(tests.join(name)).arg("--program").arg(binary);
        command
    };
    succeed(&mut script("traces.py"))?;
    succeed(script("live.py").arg("--prometheus").arg(prometheus))
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.status();
    let status = status.with_context(|| format!("`{}` could not be started", program.display()))?;
    if !status.success() {
        bail!("`{}` found faults", program.display());
    }
    Ok(())
}
