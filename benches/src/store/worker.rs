//! A worker that answers at once, and fails when it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::Result;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const MODELS: &str = r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#;
const ANSWER: &str = r#"{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

/// One worker; it ends with what holds it.
pub(crate) struct Worker {
    pub(crate) address: SocketAddr,
    status: Arc<AtomicU16>,
    accepting: JoinHandle<()>,
}

impl Worker {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let status = Arc::new(AtomicU16::new(200));
        let shared = Arc::clone(&status);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let status = Arc::clone(&shared);
                // A connection ends when either side is gone.
                tokio::spawn(async move { drop(serve(stream, &status).await) });
            }
        });
        Ok(Self { address, status, accepting })
    }

    /// Answers requests with this status from now on.
    pub(crate) fn turn_to(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, status: &AtomicU16) -> Result<()> {
    let mut read = Vec::with_capacity(4 * 1024);
    loop {
        let Some(end) = memmem::find(&read, b"\r\n\r\n").map(|at| at + 4) else {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let head = std::str::from_utf8(&read[..end])?.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(Ok(0), |value| value.trim().parse())?;
        while read.len() < end + length {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        read.drain(..end + length);
        let (status, body) = match head.split(' ').nth(1) {
            Some("/v1/models") => (200, MODELS),
            Some("/v1/chat/completions") => (status.load(Ordering::SeqCst), ANSWER),
            Some("/health") => (200, "{}"),
            _ => (404, "{}"),
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await?;
    }
}
