//! Crashing worker: a real process that dies, and its supervisor that restarts it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::binary;
use anyhow::{Context, Result, ensure};
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What is simulated: the model and the GPUs of the deployment that crashed.
pub(crate) const PROFILE: &str = "h100-tp2/llama-3-70b-fp8";
/// Tokens of each cache: a twentieth of what the GPUs hold, so that a small load fills it.
pub(crate) const CACHE_TOKENS: u32 = 12_000;
/// Between a death and the next start; loading a 70B takes longer, which would favour the guarded.
pub(crate) const START_UP: Duration = Duration::from_secs(3);

/// What a worker exits with where its cache is overdrawn.
const KILLED: i32 = 137;

/// A worker under supervision.
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    crashes: Arc<AtomicU32>,
    stop: Option<oneshot::Sender<()>>,
    supervisor: JoinHandle<Result<()>>,
}

impl Worker {
    /// Starts one on a free port.
    pub(crate) async fn start(binary: &Path) -> Result<Self> {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let (child, address) = spawn(binary, anywhere).await?;
        let (stop, stopped) = oneshot::channel();
        let crashes = Arc::new(AtomicU32::new(0));
        let (binary, count) = (binary.to_owned(), Arc::clone(&crashes));
        let supervisor = tokio::spawn(supervise(child, binary, address, count, stopped));
        Ok(Self { address, crashes, stop: Some(stop), supervisor })
    }

    /// How often it died so far.
    pub(crate) fn crashes(&self) -> u32 {
        self.crashes.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub(crate) async fn end(mut self) -> Result<()> {
        if let Some(stop) = self.stop.take() {
            // A supervisor that is gone says why below.
            let _ = stop.send(());
        }
        self.supervisor.await?
    }
}

/// Starts it again, on the same port, for as long as nobody says stop.
async fn supervise(
    mut child: Child,
    binary: PathBuf,
    address: SocketAddr,
    crashes: Arc<AtomicU32>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<()> {
    loop {
        let status = tokio::select! {
            status = child.wait() => status?,
            _ = &mut stopped => {
                child.kill().await?;
                return Ok(());
            }
        };
        ensure!(status.code() == Some(KILLED), "a worker ended with {status}");
        crashes.fetch_add(1, Ordering::Relaxed);
        tokio::select! {
            () = sleep(START_UP) => {}
            _ = &mut stopped => return Ok(()),
        }
        (child, _) = spawn(&binary, address).await?;
    }
}

async fn spawn(binary: &Path, listen: SocketAddr) -> Result<(Child, SocketAddr)> {
    let (tokens, listen) = (CACHE_TOKENS.to_string(), listen.to_string());
    let worker = ["worker", "--simulate", PROFILE, "--crash-on-oom", "--max-num-seqs", "256"];
    let arguments = [&worker[..], &["--kv-tokens", &tokens, "--listen", &listen]].concat();
    let (child, addresses) = binary::start(binary, &arguments, 1).await?;
    Ok((child, *addresses.first().context("it listens on a port")?))
}
