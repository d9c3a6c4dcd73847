//! The real binary in processes of its own: where it lies, how it is started, when it serves.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A server that does not listen, or does not serve, by then has a fault.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at a server that does not serve yet.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An answer about health is never longer.
const HEALTH_BYTES_MAX: u64 = 4_096;

/// `overdraft` in the folder of this binary.
///
/// # Errors
/// When it is not there.
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

/// Starts a server and waits until it listens on so many ports. It is killed when it is dropped.
///
/// # Errors
/// When it cannot be started, ends, or takes too long.
#[expect(
    clippy::disallowed_methods,
    reason = "the task ends with the child, which the caller owns"
)]
pub(crate) async fn start(
    binary: &Path,
    arguments: &[&str],
    ports: usize,
) -> Result<(Child, Vec<SocketAddr>)> {
    let mut child = Command::new(binary)
        .args(arguments)
        .args(["--log-level", "error"])
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
    let shown = arguments.first().copied().unwrap_or_default();
    timeout(START_PATIENCE, listening)
        .await
        .with_context(|| format!("`overdraft {shown}` took too long to start"))??;
    // Nobody reads on, and a full pipe must not stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = told.next_line().await {} });
    Ok((child, addresses))
}

/// An address that was free a moment ago.
///
/// # Errors
/// When the system has none.
pub(crate) async fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

/// Waits until `GET path` is answered with 200 and a body that has `part`: a worker has warmed up by then,
/// and a gateway knows its workers.
///
/// # Errors
/// When that takes too long.
pub(crate) async fn until_healthy(address: SocketAddr, path: &str, part: &str) -> Result<()> {
    let healthy = async {
        while !health(address, path).await.is_ok_and(|body| body.contains(part)) {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(START_PATIENCE, healthy)
        .await
        .with_context(|| format!("`http://{address}{path}` did not come to say `{part}`"))
}

/// The body of an answer with 200.
async fn health(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(HEALTH_BYTES_MAX).read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "it is not healthy");
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer has a head")?;
    Ok(body.to_owned())
}
