//! From a clone to a streamed token: build, serve, print what to try.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{real, shell};

/// Guessing by prompt lookup, which needs no second model.
const LOOKUPS: [&str; 2] = ["--speculation-policy", "goodput"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Serve a real model of 135M parameters, SmolLM2-Instruct, instead of the demo models; the first
    /// time pip fetches it, 93 MB
    #[arg(long)]
    real: bool,
    /// More arguments for `overdraft serve`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds the release binary and serves in the foreground until it is interrupted.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    needs("cc", "--version", "a C compiler: on Debian `apt-get install gcc`")?;
    shell::cargo(&["build", "--release", "--locked", "--package", "overdraft"])?;
    let mut serve = vec!["serve".into(), "--listen".into(), arguments.listen.clone().into()];
    if arguments.real {
        serve.extend(["--model".into(), real::model()?.into_os_string()]);
        serve.extend(LOOKUPS.map(OsString::from));
    }
    serve.extend(arguments.more.iter().map(OsString::from));
    let binary = shell::target().join("release").join("overdraft");
    let mut command = Command::new(&binary);
    command.args(&serve);
    eprintln!("$ {command:?}");
    let status =
        command.status().with_context(|| format!("`{}` could not be started", binary.display()))?;
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
