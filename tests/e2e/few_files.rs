//! A gateway with few file descriptors: idle connections make room, and what is vital is answered.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Server, until};

/// Files that the gateway may open.
const FILES: u32 = 64;

/// More connections than that.
const CLIENTS: usize = 80;

/// A connection that has been answered once and is kept.
fn kept(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out can be set");
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is taken");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer begins");
    assert_eq!(&first, b"HTTP/1.1 200");
    stream
}

// Faults: 79
#[test]
fn with_few_files_idle_connections_make_room_and_what_is_vital_is_answered() {
    let worker = Server::worker(&["--backend", "echo"]);
    let url = format!("http://{}", worker.address);
    let server = Server::serve_with_files(FILES, &["--worker", &url]);
    until("the worker is up", || server.ask("GET", "/healthz", "").status == 200);
    let idle: Vec<TcpStream> = (0..CLIENTS).map(|_| kept(&server)).collect();
    for path in ["/livez", "/metrics", "/v1/models"] {
        assert_eq!(server.ask("GET", path, "").status, 200, "{path}: {}", server.log());
    }
    let chat = "/v1/chat/completions";
    let body = json!({"model": "echo", "max_tokens": 4,
                      "messages": [{"role": "user", "content": "Hello"}]});
    server.chat(&body);
    drop(idle);
    // A request whose body does not end keeps its connection.
    let body = body.to_string();
    let mut busy = Vec::new();
    until("there is no room", || {
        busy.push(server.open_partly("POST", chat, &body, 10));
        server.ask("POST", chat, &body).status == 503
    });
    assert!(busy.len() < CLIENTS, "{} have room", busy.len());
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(server.ask("GET", path, "").status, 200, "{path}: {}", server.log());
    }
}
