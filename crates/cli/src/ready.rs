//! Readiness wait: polls the gateway until it can serve.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An answer to a probe is never longer than this.
const ANSWER_BYTES_MAX: u64 = 4_096;

/// Resolves once `GET /healthz` answers 200 and tells of at least `workers` that are up. Drop it to
/// give up.
pub(crate) async fn healthy(address: SocketAddr, workers: usize) {
    while workers_up(address).await.is_none_or(|up| up < workers) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How many workers a healthy gateway says are up.
async fn workers_up(address: SocketAddr) -> Option<usize> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await.ok()?;
    if !answer.starts_with("HTTP/1.1 200") {
        return None;
    }
    let (_, rest) = answer.split_once("\"workers_up\":")?;
    rest.split(|byte: char| !byte.is_ascii_digit()).next()?.parse().ok()
}
