//! A client that sees what was really sent: heads, chunks, and how the connection ended.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::in_time;
use crate::mock::find;

/// One connection to the gateway.
pub(crate) struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Head {
    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.text.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            (own == name).then_some(value)
        })
    }
}

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With the last chunk.
    Clean,
    /// Without it.
    Aborted,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = in_time(TcpStream::connect(address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        in_time(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) {
        self.post_with(path, "", body).await;
    }

    /// Posts with further header lines, each ended by CRLF.
    pub(crate) async fn post_with(&mut self, path: &str, headers: &str, body: &str) {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {headers}content-length: {length}\r\n\r\n{body}"
        );
        self.send(request).await;
    }

    pub(crate) async fn get(&mut self, path: &str) -> (Head, String) {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        self.whole().await
    }

    pub(crate) async fn head(&mut self) -> Head {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "no answer, only {:?}", self.read);
        };
        let text = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        Head { status, text }
    }

    /// A whole answer.
    pub(crate) async fn whole(&mut self) -> (Head, String) {
        let head = self.head().await;
        let body = self.body_of(&head).await;
        (head, body)
    }

    /// The body that belongs to a head with a length.
    pub(crate) async fn body_of(&mut self, head: &Head) -> String {
        let length: usize = head.header("content-length").expect("a length").parse().unwrap();
        while self.read.len() < length {
            assert!(self.more().await, "the answer broke off");
        }
        String::from_utf8(self.read.drain(..length).collect()).unwrap()
    }

    /// The next chunk as it was framed, or how the answer ended.
    pub(crate) async fn chunk(&mut self) -> Result<String, End> {
        let line_end = loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                break at;
            }
            if !self.more().await {
                return Err(End::Aborted);
            }
        };
        let size = std::str::from_utf8(&self.read[..line_end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let end = line_end + 2 + size + 2;
        while self.read.len() < end {
            if !self.more().await {
                return Err(End::Aborted);
            }
        }
        let chunk: Vec<u8> = self.read.drain(..end).collect();
        if size == 0 {
            return Err(End::Clean);
        }
        Ok(String::from_utf8(chunk[line_end + 2..end - 2].to_vec()).unwrap())
    }

    /// All that is left of a chunked answer, and how it ended.
    pub(crate) async fn rest(&mut self) -> (String, End) {
        let mut text = String::new();
        loop {
            match self.chunk().await {
                Ok(chunk) => text.push_str(&chunk),
                Err(end) => return (text, end),
            }
        }
    }

    /// All of a chunked answer that ends cleanly.
    pub(crate) async fn rest_after_head(&mut self) -> String {
        self.head().await;
        let (text, end) = self.rest().await;
        assert_eq!(end, End::Clean, "{text}");
        text
    }

    /// All bytes until the gateway closes the connection.
    pub(crate) async fn rest_of_bytes(&mut self) -> Vec<u8> {
        self.until_closed().await;
        std::mem::take(&mut self.read)
    }

    /// Whether the gateway has closed the connection and sent nothing more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.more().await
    }

    /// Reads on until the gateway closes the connection.
    pub(crate) async fn until_closed(&mut self) {
        while self.more().await {}
    }

    /// Reads some more; false at the end, however it came.
    async fn more(&mut self) -> bool {
        in_time(self.stream.read_buf(&mut self.read)).await.is_ok_and(|length| length > 0)
    }
}
