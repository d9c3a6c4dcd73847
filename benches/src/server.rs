//! Servers that end with their owner, and commands that tell what they found as JSON.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::binary;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A command that has not ended by then has a fault.
const PATIENCE: Duration = Duration::from_mins(8);

/// A running `overdraft worker` or `overdraft serve`.
pub(crate) struct Server {
    child: Child,
    /// Where it listens; several workers of one process are as many.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts `command` on free ports and waits until it listens on so many.
    pub(crate) async fn start(
        binary: &Path,
        command: &str,
        arguments: &[&str],
        ports: usize,
    ) -> Result<Self> {
        let arguments = [&[command, "--listen", "127.0.0.1:0"][..], arguments].concat();
        let (child, addresses) = binary::start(binary, &arguments, ports).await?;
        Ok(Self { child, addresses })
    }

    /// Simulated workers that have warmed up.
    pub(crate) async fn workers(binary: &Path, arguments: &[&str], count: usize) -> Result<Self> {
        let workers = Self::start(binary, "worker", arguments, count).await?;
        for address in &workers.addresses {
            binary::until_healthy(*address, "/health", "").await?;
        }
        Ok(workers)
    }

    /// The live gateway with its defaults before these workers, once it knows them all.
    pub(crate) async fn gateway(binary: &Path, workers: &Self) -> Result<Self> {
        let urls: Vec<String> =
            workers.addresses.iter().map(|address| format!("http://{address}")).collect();
        let arguments: Vec<&str> = urls.iter().flat_map(|url| ["--worker", url.as_str()]).collect();
        Self::gateway_with(binary, &arguments, urls.len()).await
    }

    /// The live gateway, once it knows so many workers.
    pub(crate) async fn gateway_with(
        binary: &Path,
        arguments: &[&str],
        workers: usize,
    ) -> Result<Self> {
        let gateway = Self::start(binary, "serve", arguments, 1).await?;
        let up = format!("\"workers_up\":{workers},");
        for address in &gateway.addresses {
            binary::until_healthy(*address, "/healthz", &up).await?;
        }
        Ok(gateway)
    }

    /// The number of its process.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the server has ended")
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
