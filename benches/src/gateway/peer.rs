//! Other gateways, before the same worker in the same minutes.
//!
//! Each comes from the Python package index, pinned in `benches/peers.txt`, and runs as it comes, with
//! the cache-aware policy that all of them have by default. CPU time is what the kernel charged their
//! processes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::{Child, Command};

use super::load::{self, Volume};
use crate::binary::free_address;

/// Package, and the module that launches it.
pub(crate) const PEERS: [(&str, &str); 3] = [
    ("sglang-router", "sglang_router.launch_router"),
    ("vllm-router", "vllm_router.launch_router"),
    ("smg", "smg.launch_router"),
];

/// How often a peer is asked whether it serves yet, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOKS_MAX: usize = 160;
/// One of them, ended with its owner.
pub(crate) struct Peer {
    /// Package and version.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Peer {
    /// Starts a peer before `worker` and waits until it answers.
    pub(crate) async fn start(
        python: &Path,
        (package, module): (&str, &str),
        worker: &str,
    ) -> Result<Self> {
        ensure!(python.exists(), "`{}` is not there; see README", python.display());
        let version = version(python, package).await?;
        let (port, metrics) = (free_address().await?.port(), free_address().await?.port());
        let child = Command::new(python)
            .args(["-m", module, "--policy", "cache_aware", "--host", "127.0.0.1"])
            .args(["--port", &port.to_string(), "--prometheus-port", &metrics.to_string()])
            .args(["--worker-urls", &format!("http://{worker}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut peer = Self { name: format!("{package} {version}"), address, child };
        peer.until_ready().await?;
        Ok(peer)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let request = load::whole(200);
        let once = Volume { requests: 1, connections: 1 };
        for _ in 0..LOOKS_MAX {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("{} ended at its start: {status}", self.name);
            }
            if load::run(self.address, &request, once).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let last = load::run(self.address, &request, once).await;
        last.with_context(|| format!("{} never answered", self.name))
    }

    /// Its process.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the peer has ended")
    }

    /// The most memory it ever had resident, in megabytes: of its largest process.
    pub(crate) fn peak_mb(&self) -> Result<f64> {
        let peaks = family(self.id()?)?.into_iter().filter_map(|id| super::child::peak_mb(id).ok());
        Ok(peaks.fold(0.0, f64::max))
    }
}

/// CPU time used so far by a process and its children, in microseconds. Asked of each thread, where the kernel tells
/// nanoseconds; of a process it tells hundredths of a second, a tenth of what a round of long prompts takes.
pub(crate) fn cpu_us(id: u32) -> Result<f64> {
    let mut nanos = 0.0;
    for id in family(id)? {
        // A child or a thread may end while it is looked at.
        let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { continue };
        nanos += threads.flatten().filter_map(|thread| nanos_of(&thread.path())).sum::<f64>();
    }
    Ok(nanos / 1_000.0)
}

async fn version(python: &Path, package: &str) -> Result<String> {
    let code = format!("import importlib.metadata as m; print(m.version('{package}'))");
    let told = Command::new(python).args(["-c", &code]).output().await?;
    ensure!(told.status.success(), "{package} is not installed; see README");
    Ok(String::from_utf8(told.stdout)?.trim().to_owned())
}

/// A process and all that descend from it.
fn family(root: u32) -> Result<Vec<u32>> {
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&id) = family.get(next) {
        next += 1;
        for thread in fs::read_dir(format!("/proc/{id}/task"))? {
            let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    Ok(family)
}

/// Time that a thread was on a processor.
fn nanos_of(thread: &Path) -> Option<f64> {
    let told = fs::read_to_string(thread.join("schedstat")).ok()?;
    told.split(' ').next()?.parse().ok()
}
