//! The load: prebuilt requests over keep-alive connections, answers read and thrown away.
//!
//! Every prompt begins with a number of its own, so no two share a prefix: what a gateway remembers of
//! prompts is written anew for each, which is the most that it can cost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at};

use super::mock::MODEL;

/// Stands where a prompt's number goes.
const NUMBER: &str = "000000000000";

/// The next prompt's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A request that only lacks its number.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    number_at: usize,
}

/// A chat request whose prompt has `prompt_bytes` bytes.
pub(crate) fn whole(prompt_bytes: usize) -> Arc<Request> {
    request(prompt_bytes, "")
}

/// A request for a stream.
pub(crate) fn streamed() -> Arc<Request> {
    request(200, r#","stream":true"#)
}

fn request(prompt_bytes: usize, more: &str) -> Arc<Request> {
    // Prose as clients escape it: a line end every 80 characters, a quotation every few lines.
    const TEXT: &str = "You are a careful assistant who answers in one short sentence, and only from \\n\
                        the passages below. When they do not say, answer \\\"I do not know\\\" and stop. \\n\
                        Passage 1: the tower was finished in 1889 and was then the tallest building \\n\
                        of the world, which it remained for forty-one years, until another was built. \\n";
    let mut prompt = format!("{NUMBER} {}", TEXT.repeat(prompt_bytes / TEXT.len() + 1));
    let escape_at_end = prompt[..prompt_bytes].ends_with('\\');
    prompt.truncate(prompt_bytes - usize::from(escape_at_end));
    let body = format!(
        r#"{{"model":"{MODEL}"{more},"temperature":0.7,"max_tokens":64,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
    );
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json\r\nuser-agent: bench\r\nauthorization: Bearer sk-bench\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let number_at = head.len() + body.find(NUMBER).expect("a prompt begins with it");
    Arc::new(Request { bytes: [head.as_bytes(), body.as_bytes()].concat(), number_at })
}

/// How much to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    pub(crate) requests: usize,
    pub(crate) connections: usize,
}

/// Sends `volume` of `request`; each connection sends its next when it has the answer.
pub(crate) async fn run(to: SocketAddr, request: &Arc<Request>, volume: Volume) -> Result<()> {
    let mut connections = JoinSet::new();
    for _ in 0..volume.connections {
        let request = Arc::clone(request);
        connections.spawn(async move {
            let mut connection = Connection::open(to, &request).await?;
            for _ in 0..volume.requests / volume.connections {
                connection.ask().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = connections.join_next().await {
        done??;
    }
    Ok(())
}

/// Sends `request` over so many connections for as long as `span` says.
pub(crate) async fn run_for(
    to: SocketAddr,
    request: &Arc<Request>,
    (connections, span): (usize, Duration),
) -> Result<()> {
    let end = Instant::now() + span;
    let mut running = JoinSet::new();
    for _ in 0..connections {
        let request = Arc::clone(request);
        running.spawn(async move {
            let mut connection = Connection::open(to, &request).await?;
            while Instant::now() < end {
                connection.ask().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(())
}

/// Sends `volume` of `request` at an even pace, over all of `span`: who falls behind catches up.
pub(crate) async fn paced(
    to: SocketAddr,
    request: &Arc<Request>,
    volume: Volume,
    span: Duration,
) -> Result<()> {
    let each = volume.requests / volume.connections;
    let period = span / u32::try_from(each)?;
    let mut connections = JoinSet::new();
    for place in 0..volume.connections {
        let request = Arc::clone(request);
        // Connections take turns, so that requests come one by one.
        let begin =
            Instant::now() + period * u32::try_from(place)? / u32::try_from(volume.connections)?;
        connections.spawn(async move {
            let mut connection = Connection::open(to, &request).await?;
            let mut ticks = interval_at(begin, period);
            for _ in 0..each {
                ticks.tick().await;
                connection.ask().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = connections.join_next().await {
        done??;
    }
    Ok(())
}

/// How long each of `requests` requests takes, one after the other.
pub(crate) async fn latencies(
    to: SocketAddr,
    request: &Arc<Request>,
    requests: usize,
) -> Result<Vec<Duration>> {
    let mut connection = Connection::open(to, request).await?;
    let mut taken = Vec::with_capacity(requests);
    for _ in 0..requests {
        let begun = Instant::now();
        connection.ask().await?;
        taken.push(begun.elapsed());
    }
    Ok(taken)
}

/// One connection.
struct Connection {
    stream: TcpStream,
    sent: Vec<u8>,
    number_at: usize,
    read: Vec<u8>,
}

impl Connection {
    async fn open(to: SocketAddr, request: &Request) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (sent, number_at) = (request.bytes.clone(), request.number_at);
        Ok(Self { stream, sent, number_at, read: Vec::with_capacity(64 * 1024) })
    }

    /// Sends the request with the next number and reads its answer to the end.
    async fn ask(&mut self) -> Result<()> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = format!("{number:0width$}", width = NUMBER.len());
        self.sent[self.number_at..self.number_at + NUMBER.len()].copy_from_slice(number.as_bytes());
        self.stream.write_all(&self.sent).await?;
        self.read.clear();
        let head_end = loop {
            if let Some(at) = memchr::memmem::find(&self.read, b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.stream.read_buf(&mut self.read).await? > 0, "the answer broke off");
        };
        let head = std::str::from_utf8(&self.read[..head_end])?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "not answered: {head}");
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        match length {
            Some(length) => {
                let end = head_end + length.parse::<usize>()?;
                while self.read.len() < end {
                    let got = self.stream.read_buf(&mut self.read).await?;
                    ensure!(got > 0, "the answer broke off");
                }
            }
            None => self.skip_to_last_chunk().await?,
        }
        Ok(())
    }

    async fn skip_to_last_chunk(&mut self) -> Result<()> {
        const LAST: &[u8] = b"\r\n0\r\n\r\n";
        while !self.read.ends_with(LAST) {
            let kept = self.read.len().saturating_sub(LAST.len());
            self.read.drain(..kept);
            ensure!(self.stream.read_buf(&mut self.read).await? > 0, "the stream broke off");
        }
        Ok(())
    }
}
