//! Clients: connections that stay open and ask for nothing, and one that asks for health all the time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LENGTH: &[u8] = b"content-length: ";
/// An answer about health is never longer.
const ANSWER_BYTES_MAX: usize = 4_096;
/// A gateway that takes longer has a fault.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that is kept open.
pub(super) struct Client(TcpStream);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When the gateway does not take the connection.
    pub(super) async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(to)).await.context("no connection")??;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Asks whether the gateway is well, and says how long the answer took.
    ///
    /// # Errors
    /// When the answer is another one, or does not come.
    pub(super) async fn health(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.0.write_all(HEALTH).await?;
        timeout(PATIENCE, self.answer()).await.context("no answer about health")??;
        Ok(begun.elapsed())
    }

    async fn answer(&mut self) -> Result<()> {
        let mut bytes = Vec::with_capacity(512);
        while !is_whole(&bytes)? {
            ensure!(bytes.len() < ANSWER_BYTES_MAX, "an answer about health has no end");
            ensure!(self.0.read_buf(&mut bytes).await? != 0, "the gateway closed a connection");
        }
        let status = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let shown = String::from_utf8_lossy(status);
        ensure!(status.starts_with(b"HTTP/1.1 200"), "health was answered with `{shown}`");
        Ok(())
    }
}

/// Whether these are a head and as many bytes behind it as it says.
fn is_whole(bytes: &[u8]) -> Result<bool> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(false) };
    let head = bytes[..end].to_ascii_lowercase();
    let at = memmem::find(&head, LENGTH).context("an answer about health tells its length")?;
    let digits = head[at + LENGTH.len()..].split(|byte| *byte == b'\r').next();
    let length: usize = std::str::from_utf8(digits.unwrap_or_default())?.parse()?;
    Ok(end + b"\r\n\r\n".len() + length <= bytes.len())
}
