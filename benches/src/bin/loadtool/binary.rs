//! The real binary: servers that end with their owner, and commands that tell what they found as JSON.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A server that does not listen by then has a fault.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// A command that has not ended by then has one.
const PATIENCE: Duration = Duration::from_mins(8);

/// A running `overdraft worker` or `overdraft serve`.
pub(crate) struct Server {
    _child: Child,
    /// Where it listens; several workers of one process are as many.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// `overdraft` in the folder of this binary.
pub(crate) fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("a binary lies in a folder")?;
    let binary = folder.join("overdraft");
    ensure!(
        binary.exists(),
        "`{}` is not there; build it with `cargo build --release --package overdraft`, or give \
         --binary",
        binary.display()
    );
    Ok(binary)
}

impl Server {
    /// Starts `command` on free ports and waits until it listens on so many.
    pub(crate) async fn start(
        binary: &Path,
        command: &str,
        arguments: &[&str],
        ports: usize,
    ) -> Result<Self> {
        let mut child = Command::new(binary)
            .args([command, "--listen", "127.0.0.1:0", "--log-level", "error"])
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut told = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
        let mut addresses = Vec::new();
        let listening = async {
            while addresses.len() < ports {
                let line = told.next_line().await?.context("it ended before it listened")?;
                if let Some((_, address)) = line.split_once("serves on http://") {
                    addresses.push(address.trim().parse()?);
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        timeout(START_PATIENCE, listening)
            .await
            .with_context(|| format!("`overdraft {command}` took too long to start"))??;
        // Nobody reads on, and a full pipe must not stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = told.next_line().await {} });
        Ok(Self { _child: child, addresses })
    }

    /// The first address, as a URL.
    pub(crate) fn url(&self) -> String {
        self.addresses.first().map(|address| format!("http://{address}")).unwrap_or_default()
    }
}

/// Runs a command to its end and reads the JSON that it prints.
pub(crate) async fn told(binary: &Path, arguments: &[String]) -> Result<Value> {
    let mut command = Command::new(binary);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let shown = arguments.first().map(String::as_str).unwrap_or_default();
    let out = timeout(PATIENCE, command.output())
        .await
        .with_context(|| format!("`overdraft {shown}` did not end in time"))??;
    let errors = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "`overdraft {shown}` ended with {}: {errors}", out.status);
    serde_json::from_slice(&out.stdout)
        .with_context(|| format!("`overdraft {shown}` printed no JSON"))
}

/// A figure of a JSON report, by the names that lead to it.
pub(crate) fn figure(report: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().try_fold(report, |inner, name| match inner {
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    });
    found.and_then(Value::as_f64).with_context(|| format!("the report has no `{}`", path.join(".")))
}
