//! Requests over connections that are kept.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The key that all requests are sent with.
pub(crate) const KEY: &str = "sk-bench";

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":4}"#;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(8 * 1024) })
    }

    /// A chat request; its status.
    pub(crate) async fn chat(&mut self) -> Result<u16> {
        let length = BODY.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}"
        );
        Ok(self.ask(&head).await?.0)
    }

    /// A page, as text.
    pub(crate) async fn page(&mut self, path: &str) -> Result<String> {
        Ok(self.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await?.1)
    }

    async fn ask(&mut self, request: &str) -> Result<(u16, String)> {
        self.stream.write_all(request.as_bytes()).await?;
        self.read.clear();
        let end = loop {
            anyhow::ensure!(0 < self.stream.read_buf(&mut self.read).await?, "it hung up");
            if let Some(at) = memmem::find(&self.read, b"\r\n\r\n") {
                break at + 4;
            }
        };
        let head = std::str::from_utf8(&self.read[..end])?.to_owned();
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length: usize = length.context("answers here have a length")?;
        while self.read.len() < end + length {
            anyhow::ensure!(0 < self.stream.read_buf(&mut self.read).await?, "it broke off");
        }
        Ok((status, String::from_utf8(self.read[end..end + length].to_vec())?))
    }
}
