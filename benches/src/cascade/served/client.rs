//! One streamed chat: who served it, its text, and when the first of it came.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use overdraft_wire::sse::Splitter;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Bytes of an event at most.
const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// What has not come to say so by then has a fault.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A stream that has ended as it should.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// Whose answer it is, where it says so.
    pub(super) served: Option<String>,
    pub(super) text: String,
    /// From the request to the first text.
    pub(super) first_text: Duration,
    /// To as many tokens as the window has, or to the end of fewer; where tokens are told.
    pub(super) window: Duration,
    tokens: usize,
    done: bool,
}

impl Heard {
    /// Takes note of an event's data that came after so long.
    fn take(&mut self, data: &[u8], after: Duration, window: usize) -> Result<()> {
        let chunk: Value = serde_json::from_slice(data)?;
        ensure!(chunk.get("error").is_none(), "the stream broke off: {chunk}");
        let choice = &chunk["choices"][0];
        let text = choice["delta"]["content"].as_str().unwrap_or_default();
        if self.text.is_empty() && !text.is_empty() {
            self.first_text = after;
        }
        self.text.push_str(text);
        let before = self.tokens;
        self.tokens += choice["token_ids"].as_array().map_or(0, Vec::len);
        let ended = choice["finish_reason"].is_string();
        if before < window && (window <= self.tokens || ended) {
            self.window = after;
        }
        Ok(())
    }
}

/// Asks for a chat and reads it to its end.
pub(super) async fn chat(to: SocketAddr, body: &Value, window: usize) -> Result<Heard> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(to).await?)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::post("/v1/chat/completions")
        .header("host", "bench")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let begun = Instant::now();
    let answer = sender.send_request(request).await?;
    ensure!(answer.status() == StatusCode::OK, "the answer is {}", answer.status());
    let served = answer.headers().get("x-overdraft-served-by");
    let mut heard = Heard {
        served: served.and_then(|value| value.to_str().ok()).map(str::to_owned),
        ..Heard::default()
    };
    let (mut frames, mut splitter) = (answer.into_body(), Splitter::new(EVENT_BYTES_MAX));
    while let Some(frame) = frames.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        let after = begun.elapsed();
        splitter.push(&bytes);
        while let Some(event) = splitter.next_event().context("no event of a stream")? {
            heard.done |= event.is_done();
            if let (false, Some(data)) = (event.is_done(), event.data()) {
                heard.take(&data, after, window)?;
            }
        }
    }
    ensure!(heard.done, "the stream broke off after `{}`", heard.text);
    Ok(heard)
}

async fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits until `GET path` says so.
pub(super) async fn until(at: SocketAddr, path: &str, part: &str) -> Result<()> {
    let said = async {
        while !page(at, path).await.is_ok_and(|page| page.contains(part)) {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, said)
        .await
        .with_context(|| format!("`http://{at}{path}` did not come to say `{part}`"))
}

/// The body of the answer to a GET.
pub(super) async fn page(at: SocketAddr, path: &str) -> Result<String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(at).await?)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::get(path).header("host", "bench").body(Full::new(Bytes::new()))?;
    let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}
