//! One streamed request over a connection of its own, and what came of it.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// What begins the text of an event; a quotation mark after it says that there is none.
const CONTENT: &[u8] = b"\"content\":\"";
const DONE: &[u8] = b"data: [DONE]";

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Of the answer's head; zero where none came.
    pub(crate) status: u16,
    /// Seconds of `retry-after`.
    pub(crate) retry_after: Option<u32>,
    pub(crate) first_token: Option<Instant>,
    /// When it came to its end, if it did.
    pub(crate) done: Option<Instant>,
    /// Events with text.
    pub(crate) tokens: u32,
}

/// Asks for a streamed chat answer as `tenant`. A broken connection is an outcome as well.
pub(crate) async fn chat(to: SocketAddr, tenant: &str, body: &str) -> Outcome {
    let mut outcome =
        Outcome { status: 0, retry_after: None, first_token: None, done: None, tokens: 0 };
    // What broke off is told by what is missing.
    let _ = read(to, tenant, body, &mut outcome).await;
    outcome
}

async fn read(to: SocketAddr, tenant: &str, body: &str, outcome: &mut Outcome) -> Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {tenant}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::with_capacity(16 * 1024);
    let mut seen = 0;
    while stream.read_buf(&mut bytes).await? > 0 {
        if outcome.status == 0 {
            let Some(end) = memmem::find(&bytes, b"\r\n\r\n") else { continue };
            head(std::str::from_utf8(&bytes[..end])?, outcome)?;
            seen = end;
        }
        seen += texts(&bytes[seen..], outcome);
    }
    let ended = outcome.status != 200 || memmem::rfind(&bytes, DONE).is_some();
    outcome.done = ended.then(Instant::now);
    Ok(())
}

fn head(head: &str, outcome: &mut Outcome) -> Result<()> {
    let status = head.split(' ').nth(1).context("a status")?;
    outcome.status = status.parse()?;
    outcome.retry_after = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("retry-after").then(|| value.trim().parse().ok())?
    });
    Ok(())
}

/// Counts whole events with text, and says how many bytes need not be looked at again.
fn texts(bytes: &[u8], outcome: &mut Outcome) -> usize {
    let whole = memmem::rfind(bytes, b"\n\n").map_or(0, |at| at + 2);
    let found = memmem::find_iter(&bytes[..whole], CONTENT)
        .filter(|at| bytes.get(at + CONTENT.len()).is_some_and(|next| *next != b'"'))
        .count();
    if 0 < found {
        outcome.first_token.get_or_insert_with(Instant::now);
        outcome.tokens += u32::try_from(found).unwrap_or(0);
    }
    whole
}

/// The body of the answer to a GET.
pub(crate) async fn get(to: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(to).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut read = String::new();
    stream.read_to_string(&mut read).await?;
    let (_, body) = read.split_once("\r\n\r\n").context("no answer came")?;
    Ok(body.to_owned())
}
