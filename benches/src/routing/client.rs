//! One request over a connection of its own, and when its first token came.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What begins the text of an event; a quotation mark after it says that there is none.
const CONTENT: &[u8] = b"\"content\":\"";
const DONE: &[u8] = b"data: [DONE]";
const WORKER: &str = "x-overdraft-worker: ";

/// A streamed answer that came to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// When its first token was there.
    pub(crate) first_token: Instant,
    /// Who gave it.
    pub(crate) worker: String,
}

/// Asks for a streamed chat answer and reads it to its end. Dropped in between, it hangs up.
pub(crate) async fn chat(to: SocketAddr, body: &str) -> Result<Answer> {
    let mut stream = open(to, "POST", "/v1/chat/completions", body).await?;
    let mut read = Vec::with_capacity(16 * 1024);
    let mut first_token = None;
    let mut seen = 0;
    while stream.read_buf(&mut read).await? > 0 {
        if first_token.is_none() {
            first_token = has_text(&read[seen..]).then(Instant::now);
            // A piece may end within what is looked for.
            seen = read.len().saturating_sub(CONTENT.len());
        }
    }
    let head_end = memmem::find(&read, b"\r\n\r\n").context("no answer came")?;
    let head = std::str::from_utf8(&read[..head_end])?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "not answered: {}", String::from_utf8_lossy(&read));
    ensure!(memmem::rfind(&read, DONE).is_some(), "the stream broke off");
    let worker = head.lines().find_map(|line| line.strip_prefix(WORKER));
    Ok(Answer {
        first_token: first_token.context("the answer has no token")?,
        worker: worker.context("nobody says who answered")?.to_owned(),
    })
}

/// The body of the answer to a GET.
pub(crate) async fn get(to: SocketAddr, path: &str) -> Result<String> {
    let mut stream = open(to, "GET", path, "").await?;
    let mut read = String::new();
    stream.read_to_string(&mut read).await?;
    let (_, body) = read.split_once("\r\n\r\n").context("no answer came")?;
    Ok(body.to_owned())
}

async fn open(to: SocketAddr, method: &str, path: &str, body: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// Whether an event with text in it is among these bytes.
fn has_text(bytes: &[u8]) -> bool {
    memmem::find_iter(bytes, CONTENT)
        .any(|at| bytes.get(at + CONTENT.len()).is_some_and(|next| *next != b'"'))
}
