//! A listener with a handler for every way a request can go, and a client that speaks raw bytes.
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use overdraft_http::{
    Body, Drained, Exchange, Limits, RequestBody, Server, Service, read_body, reply,
};
use overdraft_telemetry::{Clock, Phase, logging};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// A request for `path`.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}

/// A listener that runs until it is told to stop or dropped.
pub(crate) struct Running {
    address: SocketAddr,
    ways: Arc<Ways>,
    stop: Arc<Notify>,
    task: Option<JoinHandle<Drained>>,
}

impl Running {
    pub(crate) async fn start(limits: Limits) -> Self {
        subscribe();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ways = Arc::new(Ways::default());
        let stop = Arc::new(Notify::new());
        let (service, end) = (Arc::clone(&ways), Arc::clone(&stop));
        let server = Server::new(limits, Clock::start());
        let task = tokio::spawn(async move {
            server.serve(listener, service, async move { end.notified().await }).await
        });
        Self { address, ways, stop, task: Some(task) }
    }

    pub(crate) async fn client(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) async fn ended(mut self) -> Drained {
        within("the end", self.task.take().unwrap()).await.unwrap()
    }

    pub(crate) fn open_gate(&self) {
        self.ways.gate.notify_one();
    }

    pub(crate) fn entered(&self) -> usize {
        *self.ways.entered.borrow()
    }

    pub(crate) async fn until_entered(&self, count: usize) {
        let mut entered = self.ways.entered.subscribe();
        within("a request", entered.wait_for(|entered| *entered >= count)).await.unwrap();
    }

    pub(crate) async fn until_dropped(&self, count: usize) {
        let mut dropped = self.ways.dropped.subscribe();
        within("a cancellation", dropped.wait_for(|dropped| *dropped >= count)).await.unwrap();
    }
}

/// A listener whose log lines can be waited for.
pub(crate) async fn logged(limits: Limits) -> (Running, Lines) {
    let lines = Lines::default();
    // The runtime of a test has one thread, so what it writes is this test's.
    SINK.set(Some(lines.clone()));
    (Running::start(limits).await, lines)
}

/// One subscriber for the process, writing to the test of the thread that logs.
///
/// A subscriber per test would race: `tracing` remembers for each call site whether anybody
/// listens, and while there is only one subscriber it asks the thread that came first, which may be
/// that of a test without one.
static SUBSCRIBER: Once = Once::new();

thread_local! {
    static SINK: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

fn subscribe() {
    SUBSCRIBER.call_once(|| {
        let settings = logging::LogSettings::default();
        let sink = || SINK.with_borrow(|lines| lines.clone().unwrap_or_default());
        let subscriber = logging::subscriber(&settings, sink).unwrap();
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Long enough that only a hang takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the work gives, or a panic that names what never came.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_elapsed| panic!("{what} did not come within {PATIENCE:?}"))
}

/// Log lines written so far.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    text: Arc<Mutex<String>>,
    written: Arc<Notify>,
}

impl Lines {
    /// Waits for a line with both texts in it.
    pub(crate) async fn until(&self, path: &str, end: &str) {
        within(&format!("a line with {path} and {end}"), async {
            while !self.has(path, end) {
                self.written.notified().await;
            }
        })
        .await;
    }

    fn has(&self, path: &str, end: &str) -> bool {
        let text = self.text.lock().unwrap();
        text.lines().any(|line| line.contains(path) && line.contains(end))
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        self.written.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The handlers, one per path.
struct Ways {
    entered: watch::Sender<usize>,
    dropped: watch::Sender<usize>,
    gate: Arc<Notify>,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            entered: watch::Sender::new(0),
            dropped: watch::Sender::new(0),
            gate: Arc::new(Notify::new()),
        }
    }
}

/// Counts when what holds it is dropped.
struct Held(watch::Sender<usize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|dropped| *dropped += 1);
    }
}

impl Service for Ways {
    async fn call(&self, exchange: Exchange, request: Request<RequestBody>) -> Response<Body> {
        let held = Held(self.dropped.clone());
        let path = request.uri().path().to_owned();
        if path == "/pending" || path.starts_with("/stream/") {
            self.entered.send_modify(|entered| *entered += 1);
        }
        match path.as_str() {
            "/hello" => reply::text(StatusCode::OK, "hello"),
            "/leaving" => reply::text(StatusCode::OK, exchange.drain.begun().to_string()),
            "/panic" => panic!("on purpose"),
            "/pending" => {
                exchange.access.note(|record| record.end.phase = Phase::FirstToken);
                std::future::pending::<()>().await;
                unreachable!()
            }
            "/echo" => match read_body(request.into_body()).await {
                Ok(bytes) => reply::text(StatusCode::OK, bytes),
                Err(error) => reply::error(&error),
            },
            other => self.stream(other.trim_start_matches("/stream/"), exchange, held),
        }
    }
}

impl Ways {
    fn stream(&self, way: &str, exchange: Exchange, held: Held) -> Response<Body> {
        exchange.access.note(|record| record.end.phase = Phase::Data);
        let way = way.to_owned();
        let gate = Arc::clone(&self.gate);
        let events = Body::unfold((0_u64, held), move |(count, held)| {
            let (way, gate, drain) = (way.clone(), Arc::clone(&gate), exchange.drain.clone());
            async move {
                let event = match (way.as_str(), count) {
                    (_, 0) => "data: one\n\n".to_owned(),
                    ("whole", 1) => "data: two\n\n".to_owned(),
                    ("gated", 1) => {
                        gate.notified().await;
                        "data: two\n\n".to_owned()
                    }
                    ("whole" | "gated", _) => return Ok(None),
                    ("broken", _) => return Err("broken".into()),
                    ("panic", _) => panic!("on purpose"),
                    ("endless", _) => "data: more\n\n".repeat(1000),
                    ("polite", 1) => {
                        drain.cut().await;
                        "data: cut\n\n".to_owned()
                    }
                    ("polite", _) => return Err("cut".into()),
                    _ => std::future::pending().await,
                };
                Ok(Some((Bytes::from(event), (count + 1, held))))
            }
        });
        reply::event_stream(events)
    }
}

/// A client that speaks raw bytes.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value)
    }
}

impl Client {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A server that has refused already may close while we still send.
        let _sent = self.stream.write_all(bytes.as_ref()).await;
    }

    pub(crate) async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    pub(crate) async fn ask(&mut self, request: &str) -> Reply {
        self.send(request).await;
        self.reply().await
    }

    /// The next answer with a declared length.
    pub(crate) async fn reply(&mut self) -> Reply {
        self.until("\r\n\r\n").await;
        let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        let length: usize = reply.header("content-length").parse().unwrap();
        while self.buffer.len() < length {
            assert!(self.more().await > 0, "the body ended early: {reply:?}");
        }
        reply.body = self.buffer.drain(..length).collect();
        reply
    }

    /// Reads until the text has come; everything read since the last answer.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            assert!(self.more().await > 0, "closed before {text:?}: {:?}", self.seen());
        }
        self.seen()
    }

    /// Everything up to the connection's end, however it ends.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await > 0 {}
        self.seen()
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        self.more().await == 0
    }

    pub(crate) async fn closes(mut self) -> bool {
        self.is_closed().await
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    async fn more(&mut self) -> usize {
        within("an answer", self.stream.read_buf(&mut self.buffer)).await.unwrap_or(0)
    }
}
