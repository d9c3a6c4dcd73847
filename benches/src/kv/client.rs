//! One completion: when its first token came, which tokens it has, and what it cost this process.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::report::Figures;
use super::worker::MODEL;

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u64>,
    /// Prompt tokens that were not computed.
    pub(crate) cached: u64,
    first_token: Duration,
    cpu: Duration,
}

impl Answer {
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            first_token_ms: self.first_token.as_secs_f64() * 1e3,
            cpu_ms: self.cpu.as_secs_f64() * 1e3,
            cached_tokens: self.cached,
        }
    }
}

/// Asks greedily for so many tokens and reads them all.
pub(crate) async fn complete(
    to: SocketAddr,
    prompt: &[usize],
    tokens: usize,
    salt: &str,
) -> Result<Answer> {
    let body = json!({
        "model": MODEL,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": true,
        "cache_salt": salt,
        "return_token_ids": true,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::post("/v1/completions")
        .header("host", "bench")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let (began, used) = (Instant::now(), cpu());
    let mut answer = sender.send_request(request).await?.into_body();
    let (mut read, mut first) = (Vec::new(), None);
    while let Some(frame) = answer.frame().await {
        let Ok(bytes) = frame?.into_data() else { continue };
        read.extend_from_slice(&bytes);
        first.get_or_insert_with(|| (began.elapsed(), cpu().saturating_sub(used)));
    }
    let text = String::from_utf8(read)?;
    ensure!(text.contains("data: [DONE]"), "the answer broke off: {text}");
    let (first_token, cpu) = first.context("the answer has no token")?;
    let mut answer = Answer { tokens: Vec::new(), cached: 0, first_token, cpu };
    for event in text.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let event: Value = serde_json::from_str(&format!("{{{event}"))?;
        let ids = event["choices"][0]["token_ids"].as_array().into_iter().flatten();
        answer.tokens.extend(ids.filter_map(Value::as_u64));
        if let Some(cached) = event["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() {
            answer.cached = cached;
        }
    }
    ensure!(answer.tokens.len() == tokens, "tokens were asked for: {text}");
    Ok(answer)
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}
