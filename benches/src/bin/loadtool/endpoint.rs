//! An endpoint that answers every chat alike, at a pace of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub(crate) const MODEL: &str = "paced";
/// Tokens of an answer.
pub(crate) const ANSWER_TOKENS: u32 = 16;
/// Until the first of them, and between them.
const BEFORE: Duration = Duration::from_millis(200);
const BETWEEN: Duration = Duration::from_millis(40);
/// Bytes of a request at most.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Endpoint {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(async move {
                    // A client that goes away ends its connection, and nothing else.
                    let _ended = serve(stream).await;
                });
                while open.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, _tasks: tasks })
    }
}

/// Answers the requests of a connection, one after the other.
async fn serve(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        let Some((path, body)) = request(&mut stream, &mut read).await? else { return Ok(()) };
        match path.as_str() {
            "/v1/chat/completions" => chat(&mut stream, &body).await?,
            "/v1/models" => {
                let models =
                    json!({ "object": "list", "data": [{ "id": MODEL, "object": "model" }] });
                whole(&mut stream, "200 OK", &models.to_string()).await?;
            }
            "/health" => whole(&mut stream, "200 OK", "{}").await?,
            _ => whole(&mut stream, "404 Not Found", "{}").await?,
        }
    }
}

async fn whole(stream: &mut TcpStream, status: &str, body: &str) -> Result<()> {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    Ok(stream.write_all(answer.as_bytes()).await?)
}

async fn chat(stream: &mut TcpStream, body: &[u8]) -> Result<()> {
    let begun = Instant::now();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for number in 0..ANSWER_TOKENS {
        sleep_until(begun + BEFORE + BETWEEN * number).await;
        let finish = (number + 1 == ANSWER_TOKENS).then_some("stop");
        let delta = json!({ "role": "assistant", "content": "word " });
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        event(stream, &chunk(&json!([choice]), &json!(null))).await?;
    }
    let usage = json!({ "prompt_tokens": body.len(), "completion_tokens": ANSWER_TOKENS,
                        "total_tokens": body.len() });
    event(stream, &chunk(&json!([]), &usage)).await?;
    event(stream, "[DONE]").await?;
    Ok(stream.write_all(b"0\r\n\r\n").await?)
}

fn chunk(choices: &serde_json::Value, usage: &serde_json::Value) -> String {
    json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL,
            "choices": choices, "usage": usage })
    .to_string()
}

async fn event(stream: &mut TcpStream, data: &str) -> Result<()> {
    let text = format!("data: {data}\n\n");
    let framed = format!("{:x}\r\n{text}\r\n", text.len());
    Ok(stream.write_all(framed.as_bytes()).await?)
}

/// Path and body of the next request; none when the client is gone.
async fn request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<Option<(String, Vec<u8>)>> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
            let whole = end + 4 + length;
            if whole <= read.len() {
                let body = read[end + 4..whole].to_vec();
                read.drain(..whole);
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                return Ok(Some((path, body)));
            }
        }
        anyhow::ensure!(read.len() <= REQUEST_BYTES_MAX, "the request is too long");
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}
