//! An API server that does what a test tells it to, one request at a time.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::discovery::tests::LONG;

/// It answers nothing by itself.
pub(super) struct ApiServer {
    listener: TcpListener,
}

/// A request that waits for its answer.
pub(super) struct Request {
    /// Path and query.
    pub(super) target: String,
    socket: TcpStream,
}

/// The answer to a watch, under way.
pub(super) struct Watch {
    socket: TcpStream,
}

impl ApiServer {
    pub(super) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The next request.
    pub(super) async fn next(&self) -> Request {
        let accepting = timeout(LONG, self.listener.accept());
        let (mut socket, _peer) = accepting.await.expect("a request in time").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = timeout(LONG, socket.read_u8()).await.expect("a head in time");
            head.push(byte.expect("a whole head"));
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.strip_prefix("GET ").unwrap().split(' ').next().unwrap().to_owned();
        Request { target, socket }
    }

    /// The next request for a list; a watch before it is refused.
    pub(super) async fn next_list(&self) -> Request {
        let request = self.next().await;
        if !request.is_watch() {
            return request;
        }
        request.refuse(500, "InternalError").await;
        let request = self.next().await;
        assert!(!request.is_watch(), "{}", request.target);
        request
    }
}

impl Request {
    pub(super) fn is_watch(&self) -> bool {
        self.target.contains("watch=true")
    }

    /// The whole list, or the end of it.
    pub(super) async fn list(self, version: u32, slices: &[Value]) {
        self.page(version, "", slices).await;
    }

    /// A part of a list.
    pub(super) async fn page(self, version: u32, more: &str, slices: &[Value]) {
        assert!(!self.is_watch(), "{}", self.target);
        let metadata = json!({"resourceVersion": version.to_string(), "continue": more});
        let list = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSliceList",
            "metadata": metadata,
            "items": slices,
        });
        self.answer("200 OK", &list.to_string()).await;
    }

    pub(super) async fn refuse(self, code: u16, reason: &str) {
        let status = status(code, reason, reason);
        self.answer(&format!("{code} {reason}"), &status.to_string()).await;
    }

    /// An answer that is no JSON.
    pub(super) async fn garble(self) {
        self.answer("200 OK", "<html>").await;
    }

    /// The start of a watch, which must be one from `version`.
    pub(super) async fn watch(mut self, version: u32) -> Watch {
        assert!(self.is_watch(), "{}", self.target);
        let from = format!("resourceVersion={version}");
        assert!(self.target.split(['?', '&']).any(|word| word == from), "{}", self.target);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                    transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        self.socket.write_all(head.as_bytes()).await.unwrap();
        Watch { socket: self.socket }
    }

    async fn answer(mut self, status: &str, body: &str) {
        let bytes = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {bytes}\r\n\
             connection: close\r\n\r\n{body}"
        );
        self.socket.write_all(answer.as_bytes()).await.unwrap();
        self.socket.shutdown().await.unwrap();
    }
}

impl Watch {
    pub(super) async fn event(&mut self, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": object});
        self.partial(&format!("{event}\n")).await;
    }

    /// A piece of an event.
    pub(super) async fn partial(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.socket.write_all(chunk.as_bytes()).await.unwrap();
    }

    /// An end as it should be.
    pub(super) async fn end(mut self) {
        self.socket.write_all(b"0\r\n\r\n").await.unwrap();
        self.socket.shutdown().await.unwrap();
    }

    /// No end at all.
    pub(super) fn cut(self) {
        drop(self.socket);
    }
}

/// A failure as the API tells it.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    })
}
