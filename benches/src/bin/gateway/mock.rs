//! A worker that answers at once: what it costs is not measured, so it does as little as it can.
//!
//! Whole answers are a fixed document. A request that asks for a stream gets as
//! many events as it says, one every [`PACE`], so that each wakes whoever relays it.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Between two events of a stream.
pub(crate) const PACE: Duration = Duration::from_millis(5);

/// The model it serves.
pub(crate) const MODEL: &str = "mock";

const ANSWER: &str = r#"{"id":"chatcmpl-0","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":10,"total_tokens":60}}"#;

const MODELS: &str = r#"{"object":"list","data":[{"id":"mock","object":"model","created":1700000000,"owned_by":"overdraft"}]}"#;

const EVENT: &str = "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";

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
    let mut read = Vec::with_capacity(64 * 1024);
    loop {
        read.clear();
        let Some(chunks) = request(&mut stream, &mut read).await? else { return Ok(()) };
        match chunks {
            Asked::Models => stream.write_all(&models).await?,
            Asked::Whole => stream.write_all(&whole).await?,
            Asked::Stream(chunks) => events(&mut stream, chunks).await?,
        }
    }
}

enum Asked {
    Models,
    Whole,
    Stream(usize),
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
    // A load that wants a stream says how long in its first bytes.
    let body = &read[head_end..];
    let asked = match memchr::memmem::find(&body[..body.len().min(128)], b"\"chunks\":") {
        _ if head.starts_with("get ") => Asked::Models,
        Some(at) => {
            let digits = body[at + 9..].iter().take_while(|byte| byte.is_ascii_digit());
            Asked::Stream(digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
        }
        None => Asked::Whole,
    };
    while left > 0 {
        read.clear();
        let got = stream.read_buf(read).await?;
        if got == 0 {
            return Ok(None);
        }
        left = left.saturating_sub(got);
    }
    Ok(Some(asked))
}

async fn events(stream: &mut TcpStream, count: usize) -> Result<()> {
    stream
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
              transfer-encoding: chunked\r\n\r\n",
        )
        .await?;
    let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..count {
        ticks.tick().await;
        stream.write_all(chunk.as_bytes()).await?;
    }
    stream.write_all(format!("{:x}\r\n{LAST}\r\n0\r\n\r\n", LAST.len()).as_bytes()).await?;
    Ok(())
}

fn document(json: &str) -> Vec<u8> {
    let length = json.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
    )
    .into_bytes()
}
