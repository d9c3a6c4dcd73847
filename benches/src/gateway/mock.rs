//! A worker that answers at once: what it costs is not measured, so it does as little as it can.
//!
//! Whole answers are a fixed document. A request that asks for a stream gets [`CHUNKS`] events, one
//! every [`PACE`], so that each wakes the relay. A stream is asked for by a short request with
//! `"stream":true`, for that is what every gateway passes on, whatever else it drops or moves. Who asks for token ids
//! gets them, as vLLM tells them.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Between two events of a stream.
pub(crate) const PACE: Duration = Duration::from_millis(5);

/// Events of a stream.
pub(crate) const CHUNKS: usize = 200;

/// Longer requests are not looked into.
const SHORT_BYTES: usize = 4 * 1024;

/// The model it serves.
pub(crate) const MODEL: &str = "mock";

const ANSWER: &str = r#"{"id":"chatcmpl-0","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":10,"total_tokens":60}}"#;

const MODELS: &str = r#"{"object":"list","data":[{"id":"mock","object":"model","created":1700000000,"owned_by":"overdraft"}]}"#;

/// What the gateway learns of its load: idle, with a cache as large as a GPU's.
const METRICS: &str = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.4\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"32768\"} 1\n";

const EVENT: &str = "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";

const EVENT_WITH_IDS: &str = "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":[30001]}]}\n\n";

/// Comes first, where ids are asked for.
const PROMPT_IDS: &str = "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":[128000,3923,374,279,6864,315,9822,30]}\n\n";

const LAST: &str = "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Answers whoever connects.
pub(crate) async fn serve(listener: TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(async move {
            // A client that leaves ends its connection, and that is all.
            let _left = answer_all(stream).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer_all(mut stream: TcpStream) -> Result<()> {
    let whole = document(ANSWER);
    let models = document(MODELS);
    let metrics = document(METRICS);
    let mut read = Vec::with_capacity(64 * 1024);
    loop {
        read.clear();
        let Some(asked) = request(&mut stream, &mut read).await? else { return Ok(()) };
        match asked {
            Asked::Models => stream.write_all(&models).await?,
            Asked::Metrics => stream.write_all(&metrics).await?,
            Asked::Whole => stream.write_all(&whole).await?,
            Asked::Stream => events(&mut stream, "", EVENT).await?,
            Asked::StreamWithIds => events(&mut stream, PROMPT_IDS, EVENT_WITH_IDS).await?,
        }
    }
}

enum Asked {
    Models,
    Metrics,
    Whole,
    Stream,
    StreamWithIds,
}

/// Reads one request; what it asks for, or `None` at the end.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<Option<Asked>> {
    let head_end = loop {
        if let Some(at) = memchr::memmem::find(read, b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    };
    let head = std::str::from_utf8(&read[..head_end])?.to_ascii_lowercase();
    let length = |name: &str| {
        let value = head.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<usize>().ok()
    };
    let mut left = (head_end + length("content-length:").unwrap_or(0)).saturating_sub(read.len());
    let is_get = head.starts_with("get ");
    let is_metrics = head.starts_with("get /metrics");
    let is_short = read.len() + left <= SHORT_BYTES;
    while left > 0 {
        if !is_short {
            read.clear();
        }
        let got = stream.read_buf(read).await?;
        if got == 0 {
            return Ok(None);
        }
        left = left.saturating_sub(got);
    }
    let says = |what: &str| is_short && memchr::memmem::find(read, what.as_bytes()).is_some();
    let streams = says(r#""stream":true"#) || says(r#""stream": true"#);
    Ok(Some(match () {
        () if is_metrics => Asked::Metrics,
        () if is_get => Asked::Models,
        () if streams && says(r#""return_token_ids":true"#) => Asked::StreamWithIds,
        () if streams => Asked::Stream,
        () => Asked::Whole,
    }))
}

async fn events(stream: &mut TcpStream, first: &str, event: &str) -> Result<()> {
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )
        .await?;
    if !first.is_empty() {
        stream.write_all(format!("{:x}\r\n{first}\r\n", first.len()).as_bytes()).await?;
    }
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..CHUNKS {
        ticks.tick().await;
        stream.write_all(chunk.as_bytes()).await?;
    }
    stream.write_all(format!("{:x}\r\n{LAST}\r\n0\r\n\r\n", LAST.len()).as_bytes()).await?;
    Ok(())
}

fn document(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
