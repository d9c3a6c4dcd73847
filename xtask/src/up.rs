//! From a clone to a streamed token: build, serve, print what to try.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// More arguments for `overdraft serve`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds the release binary and serves in the foreground until it is interrupted.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    needs("cc", "--version", "a C compiler: on Debian `apt-get install gcc`")?;
    shell::cargo(&["build", "--release", "--locked", "--package", "overdraft"])?;
    let binary = shell::target().join("release").join("overdraft");
    eprintln!("$ {} serve --listen {}", binary.display(), arguments.listen);
    let status = Command::new(&binary)
        .args(["serve", "--listen", &arguments.listen])
        .args(&arguments.more)
        .status()
        .with_context(|| format!("`{}` could not be started", binary.display()))?;
    if !status.success() {
        bail!("`overdraft serve` ended with {status}");
    }
    Ok(())
}

/// Says what is missing before a compiler error does.
fn needs(program: &str, probe: &str, hint: &str) -> Result<()> {
    let found = Command::new(program).arg(probe).output().is_ok_and(|out| out.status.success());
    if !found {
        bail!("`{program}` was not found; Overdraft needs {hint}");
    }
    Ok(())
}
