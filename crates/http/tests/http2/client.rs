//! Clients that speak HTTP/2: one that follows the rules, and one that sends whatever frames it is told to.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::within;

/// What every client sends first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Room for everything: where a stream waits, it is for its own window.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A client that follows the rules.
pub(crate) struct Polite {
    pub(crate) requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: Response<()>,
    pub(crate) body: String,
}

impl Polite {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = Builder::new();
        builder.initial_connection_window_size(CONNECTION_WINDOW);
        let (requests, connection) = builder.handshake(stream).await.unwrap();
        Self { requests, connection: tokio::spawn(connection) }
    }

    /// Asks without waiting for the answer.
    pub(crate) async fn begin(&mut self, path: &str) -> ResponseFuture {
        let mut ready = within("room for a stream", self.requests.clone().ready()).await.unwrap();
        let request = Request::get(format!("http://test{path}")).body(()).unwrap();
        ready.send_request(request, true).unwrap().0
    }

    pub(crate) async fn ask(&mut self, path: &str) -> Answer {
        answer(self.begin(path).await).await
    }

    /// Posts a body in parts; the last one ends it if `ends`.
    pub(crate) async fn post(
        &mut self,
        length: Option<usize>,
        parts: &[&str],
        ends: bool,
    ) -> Answer {
        let mut ready = within("room for a stream", self.requests.clone().ready()).await.unwrap();
        let mut request = Request::post("http://test/echo");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let (response, mut body) = ready.send_request(request.body(()).unwrap(), false).unwrap();
        for part in parts {
            // A server that has refused already may have reset the stream.
            let _sent = body.send_data(Bytes::copy_from_slice(part.as_bytes()), false);
        }
        if ends {
            let _sent = body.send_data(Bytes::new(), true);
        }
        answer(response).await
    }

    /// How the connection ended; all requests must have been dropped.
    pub(crate) async fn ended(self) -> Result<(), h2::Error> {
        drop(self.requests);
        within("the end", self.connection).await.unwrap()
    }

    /// Leaves at once.
    pub(crate) fn leave(self) {
        self.connection.abort();
    }
}

pub(crate) async fn answer(response: ResponseFuture) -> Answer {
    let (head, mut body) = begun(response).await.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(part) = within("more", body.data()).await {
        let part = part.unwrap();
        body.flow_control().release_capacity(part.len()).unwrap();
        bytes.extend_from_slice(&part);
    }
    let body = String::from_utf8(bytes.to_vec()).unwrap();
    Answer { head: Response::from_parts(head, ()), body }
}

pub(crate) async fn begun(response: ResponseFuture) -> Response<RecvStream> {
    within("an answer", response).await.unwrap()
}

/// The next part of an answer as text; nothing at its end.
pub(crate) async fn part(body: &mut RecvStream) -> Option<Result<String, h2::Error>> {
    let part = within("a part", body.data()).await?;
    if part.as_ref().is_ok_and(Bytes::is_empty) && body.is_end_stream() {
        return None;
    }
    Some(part.map(|part| {
        body.flow_control().release_capacity(part.len()).unwrap();
        String::from_utf8(part.to_vec()).unwrap()
    }))
}

/// Kinds of frames.
pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const CONTINUATION: u8 = 0x9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

/// A frame as bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Headers of a request for `path`, each as a literal that no table remembers (RFC 7541, section 6.2.2).
pub(crate) fn fields(path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86]; // GET, http
    for (name, value) in [(0x04, path), (0x01, "test")] {
        block.push(name); // :path, :authority
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value.as_bytes());
    }
    block
}

/// A whole request for `path`.
pub(crate) fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields(path))
}

/// A client that sends whatever frames it is told to.
pub(crate) struct Raw {
    stream: TcpStream,
}

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The code of a `RST_STREAM`.
    pub(crate) fn code(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

impl Raw {
    /// A connection on which preface and settings have been sent.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let mut client = Self { stream: TcpStream::connect(address).await.unwrap() };
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await;
        client
    }

    /// Sends bytes, which a server that has closed the connection does not get.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        let _sent = within("room to send", self.stream.write_all(bytes)).await;
    }

    /// The next frame, unless the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        within("a frame", self.stream.read_exact(&mut head)).await.ok()?;
        let [a, b, c, kind, _, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        within("its payload", self.stream.read_exact(&mut payload)).await.ok()?;
        Some(Frame { kind, stream: u32::from_be_bytes(stream), payload })
    }

    /// The next frame of that kind.
    pub(crate) async fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.expect("the connection ended before the frame came");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Reads until the connection has ended.
    pub(crate) async fn until_closed(&mut self) {
        while self.next().await.is_some() {}
    }

    /// Sends the same again and again until the server has had enough.
    pub(crate) async fn flood(&mut self, bytes: impl Fn(u32) -> Vec<u8>) {
        let (mut read, mut write) = self.stream.split();
        let flooding = async {
            let mut sent = 0;
            while write.write_all(&bytes(sent)).await.is_ok() {
                sent += 1;
            }
        };
        // What the server says meanwhile is read, so that it is not held up by that.
        let reading = async {
            let mut rest = vec![0; 16 * 1024];
            while read.read(&mut rest).await.is_ok_and(|length| length > 0) {}
        };
        within("the end of a flood", async { tokio::join!(flooding, reading) }).await;
    }
}
