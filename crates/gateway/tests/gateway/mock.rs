//! A worker that does what the test says, byte by byte.
//!
//! Probes are answered by the mock itself; every other request becomes a [`Call`] in the test's
//! hands, connection and all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::harness::{ANSWER, MODEL, in_time};

/// Requests that may wait for the test to take them.
const CALLS_MAX: usize = 64;

/// How the mock answers probes; may be changed while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) health: u16,
    pub(crate) models: Vec<String>,
    /// The key without which it lists no models.
    pub(crate) key: Option<&'static str>,
    /// The page at `/metrics`, if there is one.
    pub(crate) metrics: Option<Vec<u8>>,
    /// Other pages.
    pub(crate) pages: BTreeMap<&'static str, Vec<u8>>,
    /// How often it was asked for its models.
    listings: u32,
}

/// A scripted worker.
pub(crate) struct Mock {
    pub(crate) address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    calls: mpsc::Receiver<Call>,
    /// Accepts; aborted when the mock is dropped, which closes its port.
    tasks: JoinSet<()>,
}

impl Mock {
    /// A worker that serves `models`.
    pub(crate) async fn start(models: &[&str]) -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), models)
    }

    /// Two workers that serve [`MODEL`].
    pub(crate) async fn pair() -> [Self; 2] {
        [Self::start(&[MODEL]).await, Self::start(&[MODEL]).await]
    }

    /// A worker that serves `models` at a port of the test's.
    pub(crate) fn start_at(listener: TcpListener, models: &[&str]) -> Self {
        let address = listener.local_addr().unwrap();
        let manner = Arc::new(Mutex::new(Manner {
            health: 200,
            models: models.iter().map(|&model| model.to_owned()).collect(),
            key: None,
            metrics: None,
            pages: BTreeMap::new(),
            listings: 0,
        }));
        let (sender, calls) = mpsc::channel(CALLS_MAX);
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&manner);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, Arc::clone(&shared), sender.clone()));
            }
        });
        Self { address, manner, calls, tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes how probes are answered.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.manner.lock().unwrap());
    }

    /// How often it was asked for its models.
    pub(crate) fn listings(&self) -> u32 {
        self.manner.lock().unwrap().listings
    }

    /// The next request.
    pub(crate) async fn call(&mut self) -> Call {
        in_time(self.calls.recv()).await.expect("the mock lives")
    }

    /// The next request, whichever of them it comes to.
    pub(crate) async fn any(mocks: &mut [Self]) -> Call {
        let asked = async {
            loop {
                match mocks.iter_mut().find_map(Self::call_now) {
                    Some(call) => break call,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        in_time(asked).await
    }

    /// The next request if it has come already.
    pub(crate) fn call_now(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Answers every request by itself from now on, as `manner` says at that time.
    pub(crate) fn answer_alone(self) -> Arc<Alone> {
        let alone = Arc::new(Alone { status: AtomicU16::new(200), asked: AtomicUsize::new(0) });
        let own = Arc::clone(&alone);
        let Self { mut calls, tasks, .. } = self;
        // The mock's own runtime ends with the test; nothing outlives it.
        tokio::spawn(async move {
            // Its port is open for as long as it answers.
            let _accepting = tasks;
            while let Some(call) = calls.recv().await {
                own.asked.fetch_add(1, Ordering::SeqCst);
                call.answer(own.status.load(Ordering::SeqCst), ANSWER).await;
            }
        });
        alone
    }

    /// Has every request from now on dealt with by itself.
    pub(crate) fn handle<F>(self, handler: impl Fn(Call) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { mut calls, tasks, .. } = self;
        // The mock's own runtime ends with the test; nothing outlives it.
        tokio::spawn(async move {
            // Its port is open for as long as it answers.
            let _accepting = tasks;
            let mut answering = JoinSet::new();
            while let Some(call) = calls.recv().await {
                answering.spawn(handler(call));
            }
        });
    }

    /// Whether a request is waiting.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }

    /// Closes the port and every connection.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// A worker that answers by itself.
pub(crate) struct Alone {
    status: AtomicU16,
    asked: AtomicUsize,
}

impl Alone {
    /// Answers with this status from now on.
    pub(crate) fn turn_to(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// A request that the test answers.
pub(crate) struct Call {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    stream: TcpStream,
    manner: Arc<Mutex<Manner>>,
    calls: mpsc::Sender<Call>,
}

impl Call {
    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            (own == name).then_some(value)
        })
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Which connection it came over.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.stream.peer_addr().unwrap()
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        in_time(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Writes to a gateway that may hang up meanwhile.
    pub(crate) async fn try_write(&mut self, text: &str) {
        let _hung_up = in_time(self.stream.write_all(text.as_bytes())).await;
    }

    /// Waits until something more comes in.
    pub(crate) async fn next_bytes(&mut self) {
        in_time(self.stream.readable()).await.unwrap();
    }

    /// Answers with a JSON document and serves on over the same connection.
    pub(crate) async fn answer(mut self, status: u16, json: &str) {
        let length = json.len();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{json}"
        );
        self.write(head).await;
        self.serve_on();
    }

    /// The same where nobody may be there any more to read it.
    pub(crate) async fn answer_if_there(mut self, json: &str) {
        let length = json.len();
        let head = format!(
            "HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{json}"
        );
        self.try_write(&head).await;
        self.serve_on();
    }

    /// Begins a stream of events.
    pub(crate) async fn stream(&mut self) {
        self.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
             transfer-encoding: chunked\r\n\r\n",
        )
        .await;
    }

    /// Sends one chunk.
    pub(crate) async fn chunk(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.write(chunk).await;
    }

    /// Ends a stream cleanly and serves on.
    pub(crate) async fn end(mut self) {
        self.write("0\r\n\r\n").await;
        self.serve_on();
    }

    /// Serves further requests over this connection.
    pub(crate) fn serve_on(self) {
        let Self { stream, manner, calls, .. } = self;
        // The mock's own runtime ends with the test; nothing outlives it.
        tokio::spawn(serve(stream, manner, calls));
    }

    /// Closes the connection.
    pub(crate) async fn close(mut self) {
        in_time(self.stream.shutdown()).await.unwrap();
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Sends a byte now and then, until the gateway has closed its side.
    pub(crate) async fn drip(mut self) {
        while in_time(self.stream.write_all(b"1\r\nx\r\n")).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Waits until the gateway has closed its side.
    pub(crate) async fn gone(mut self) {
        self.until_gone().await;
    }

    /// The same where something else may come first.
    pub(crate) async fn until_gone(&mut self) {
        let mut rest = [0; 64];
        // A reset says as much as an end.
        while in_time(self.stream.read(&mut rest)).await.is_ok_and(|read| read > 0) {}
    }
}

/// Reads requests off a connection: answers probes, and hands the first other one to the test.
async fn serve(mut stream: TcpStream, manner: Arc<Mutex<Manner>>, calls: mpsc::Sender<Call>) {
    while let Some((head, body)) = read_request(&mut stream).await {
        let now = {
            let mut manner = manner.lock().unwrap();
            manner.listings += u32::from(head.starts_with("GET /v1/models "));
            manner.clone()
        };
        let (status, page) = match head.split(' ').nth(1) {
            Some("/health") => (now.health, b"{}".to_vec()),
            Some("/v1/models") if !shows(&head, now.key) => (401, b"{}".to_vec()),
            Some("/v1/models") => (200, models(&now.models).into_bytes()),
            Some("/metrics") if now.metrics.is_some() => (200, now.metrics.unwrap_or_default()),
            Some(path) if now.pages.contains_key(path) => (200, now.pages[path].clone()),
            _ if head.starts_with("GET ") => (404, b"{}".to_vec()),
            _ => {
                let call = Call { head, body, stream, manner, calls: calls.clone() };
                // A test that has ended takes no more calls.
                let _ended = calls.send(call).await;
                return;
            }
        };
        let mut answer = format!(
            // The last one is what Google's metadata server shows itself by.
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
             metadata-flavor: Google\r\ncontent-length: {}\r\n\r\n",
            page.len()
        )
        .into_bytes();
        answer.extend_from_slice(&page);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// Whether a request shows the key, where one is asked for.
fn shows(head: &str, key: Option<&str>) -> bool {
    key.is_none_or(|key| head.contains(&format!("authorization: Bearer {key}\r\n")))
}

fn models(names: &[String]) -> String {
    let cards: Vec<String> =
        names.iter().map(|name| format!(r#"{{"id":"{name}","object":"model"}}"#)).collect();
    format!(r#"{{"object":"list","data":[{}]}}"#, cards.join(","))
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(at) = find(&read, b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.is_ok_and(|length| length > 0) {
            continue;
        }
        return None;
    };
    let mut body = read.split_off(head_end);
    let head = String::from_utf8(read).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |value| value.parse().unwrap());
    let missing = length - body.len();
    let mut rest = vec![0; missing];
    stream.read_exact(&mut rest).await.ok()?;
    body.extend_from_slice(&rest);
    Some((head, body))
}

pub(crate) fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
