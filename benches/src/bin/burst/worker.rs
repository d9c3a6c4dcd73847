//! A worker that really dies, and whoever starts it again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// What is simulated: the model and the GPUs of the deployment that crashed.
pub(crate) const PROFILE: &str = "h100-tp2/llama-3-70b-fp8";
/// Tokens of each cache: a twentieth of what the GPUs hold, so that a small load fills it.
pub(crate) const CACHE_TOKENS: u32 = 12_000;
/// Between a death and the next start; loading a 70B takes longer, which would favour the guarded.
pub(crate) const START_UP: Duration = Duration::from_secs(3);

/// What a worker exits with where its cache is overdrawn.
const KILLED: i32 = 137;
/// A worker that does not listen by then has a fault.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker under supervision.
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    crashes: Arc<AtomicU32>,
    stop: Option<oneshot::Sender<()>>,
    supervisor: JoinHandle<Result<()>>,
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
    let mut child = Command::new(binary)
        .args(["worker", "--simulate", PROFILE, "--crash-on-oom"])
        .args(["--kv-tokens", &CACHE_TOKENS.to_string(), "--listen", &listen.to_string()])
        .args(["--max-num-seqs", "256", "--log-level", "error"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut told = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
    let address = async {
        while let Some(line) = told.next_line().await? {
            if let Some((_, address)) = line.split_once("serves on http://") {
                return Ok(address.trim().parse()?);
            }
        }
        anyhow::bail!("the worker ended before it listened")
    };
    let address = timeout(PATIENCE, address).await.context("a worker took too long to start")??;
    // Nobody reads on, and a full pipe must not stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = told.next_line().await {} });
    Ok((child, address))
}
