//! The processes under measurement: started by the parent, asked by it, ended with it.
//!
//! A child prints its address, then a line for each line it reads: its CPU time so far in
//! nanoseconds. When its input ends it ends, so no child outlives its parent.

use std::future::Future;
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{ChildStdin, ChildStdout, Command};

/// The child's side: serves until its input ends.
pub(crate) async fn serve<F, S>(start: S) -> Result<ExitCode>
where
    S: FnOnce(TcpListener) -> F,
    F: Future<Output = Result<()>>,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let answering = async {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        while lines.next_line().await?.is_some() {
            let used = clock_gettime(ClockId::ProcessCPUTime);
            println!("{}", used.tv_sec * 1_000_000_000 + used.tv_nsec);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        served = start(listener) => served?,
        answered = answering => answered?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a child may take to end.
const FAREWELL_MAX: Duration = Duration::from_secs(10);

/// The parent's side.
pub(crate) struct Process {
    pub(crate) address: SocketAddr,
    child: tokio::process::Child,
    ask: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this bench in another role.
    pub(crate) async fn start(role: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("gateway")
            .args(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Access lines are made and written, and nobody reads them.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let ask = child.stdin.take().context("the child has no input")?;
        let out = child.stdout.take().context("the child has no output")?;
        let mut told = BufReader::new(out).lines();
        let address = told.next_line().await?.context("the child said nothing")?.parse()?;
        Ok(Self { address, child, ask, told })
    }

    /// Ends it as it is meant to end, by the end of its input.
    pub(crate) async fn finish(mut self) -> Result<()> {
        drop(self.ask);
        let ended = tokio::time::timeout(FAREWELL_MAX, self.child.wait()).await;
        ensure!(ended.context("the child does not end")??.success(), "the child failed");
        Ok(())
    }

    /// Its process.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the child has ended")
    }

    /// CPU time used so far, in microseconds.
    pub(crate) async fn cpu_us(&mut self) -> Result<f64> {
        self.ask.write_all(b"\n").await?;
        let line = self.told.next_line().await?.context("the child has ended")?;
        let used: f64 = line.parse()?;
        Ok(used / 1_000.0)
    }

    /// The most memory it ever had resident, in megabytes.
    pub(crate) fn peak_mb(&self) -> Result<f64> {
        peak_mb(self.id()?)
    }
}

/// The most memory a process ever had resident, in megabytes.
pub(crate) fn peak_mb(id: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    let kilobytes: f64 = kilobytes.context("the kernel tells no peak")?.parse()?;
    Ok(kilobytes / 1024.0)
}
