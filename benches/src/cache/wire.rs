//! A worker that answers at once, and a client that reads one answer after the other.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Words of an answer.
const WORDS: usize = 200;

/// Starts a worker; where it listens. It ends with the runtime.
pub(crate) async fn worker() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

async fn serve(mut stream: TcpStream) -> Result<()> {
    let mut read = Vec::new();
    loop {
        let head_end = loop {
            if let Some(at) = memmem::find(&read, b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&read[..head_end]).into_owned();
        let length = header(&head, "content-length").map_or(Ok(0), str::parse)?;
        while read.len() < head_end + length {
            ensure!(stream.read_buf(&mut read).await? > 0, "a request broke off");
        }
        let body = String::from_utf8_lossy(&read[head_end..head_end + length]).into_owned();
        read.drain(..head_end + length);
        stream.write_all(&answer(&head, &body)).await?;
    }
}

fn answer(head: &str, body: &str) -> Vec<u8> {
    let whole = |json: &str| {
        let length = json.len();
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{json}"
        )
    };
    if head.starts_with("GET /v1/models") {
        return whole(r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#).into_bytes();
    }
    if !head.starts_with("POST ") {
        return whole("{}").into_bytes();
    }
    let usage = r#""usage":{"prompt_tokens":9,"completion_tokens":200,"total_tokens":209}"#;
    let common = |object: &str| format!(r#""id":"c","object":"{object}","created":7,"model":"m""#);
    if !body.contains(r#""stream":true"#) {
        let content = "word ".repeat(WORDS);
        let common = common("chat.completion");
        let choice = format!(
            r#"{{"index":0,"message":{{"role":"assistant","content":"{content}"}},"finish_reason":"stop"}}"#
        );
        return whole(&format!(r#"{{{common},"choices":[{choice}],{usage}}}"#)).into_bytes();
    }
    let common = common("chat.completion.chunk");
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{{common},\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut events = event(r#""role":"assistant","content":"""#, "null");
    for _ in 0..WORDS {
        events.push_str(&event(r#""content":"word ""#, "null"));
    }
    events.push_str(&event("", "\"stop\""));
    let last = format!("data: {{{common},\"choices\":[],{usage}}}\n\ndata: [DONE]\n\n");
    events.push_str(&last);
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{events}\r\n0\r\n\r\n",
        events.len()
    )
    .into_bytes()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(": ")?;
        own.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// One connection to a gateway.
pub(crate) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) x_cache: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
    }

    pub(crate) async fn ask(&mut self, path: &str, body: &str) -> Result<Answer> {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        let head_end = self.until(b"\r\n\r\n").await?;
        let head: Vec<u8> = self.read.drain(..head_end).collect();
        let head = String::from_utf8(head)?;
        ensure!(head.starts_with("HTTP/1.1 200 "), "not answered: {head}");
        let x_cache = header(&head, "x-cache").unwrap_or_default().to_owned();
        let body = match header(&head, "content-length") {
            Some(length) => self.take(length.parse()?).await?,
            None => self.chunks().await?,
        };
        Ok(Answer { x_cache, body })
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line_end = self.until(b"\r\n").await?;
            let line: Vec<u8> = self.read.drain(..line_end).collect();
            let size = usize::from_str_radix(std::str::from_utf8(&line)?.trim(), 16)?;
            let chunk = self.take(size + 2).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    /// Reads until `end` is there; where the byte after it stands.
    async fn until(&mut self, end: &[u8]) -> Result<usize> {
        loop {
            if let Some(at) = memmem::find(&self.read, end) {
                return Ok(at + end.len());
            }
            self.more().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.read.len() < length {
            self.more().await?;
        }
        Ok(self.read.drain(..length).collect())
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.read).await;
        ensure!(read.context("the connection failed")? > 0, "the answer broke off");
        Ok(())
    }
}
