//! A worker with the echo behind it on a real socket, and a client that speaks plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use overdraft_engine::Backend as _;
use overdraft_engine::echo::{self, ECHO_TEMPLATE};
use overdraft_engine::{
    ChatTemplate, EchoBackend, EchoSettings, Engine, EngineSettings, EngineStats, Lookup,
    Speculation, TextCodec,
};
use overdraft_telemetry::Clock;
use overdraft_tokenizer::TokenizerDocument;
use overdraft_units::{Blocks, Tokens};
use overdraft_wire::kv_blocks::KvModel;
use overdraft_worker::{
    Drained, EngineMetrics, KvEvents, KvEventsSettings, KvShare, KvShareSettings, MetricNames,
    Served, Settings, run,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Long enough that only a hang takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A worker that runs until it is dropped or told to stop.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    engine: Engine,
    stop: Arc<Notify>,
    task: JoinHandle<Drained>,
}

/// What not every worker has.
struct Extras {
    publishing: Option<KvEventsSettings>,
    sharing: Option<KvShareSettings>,
    speculation: Speculation,
}

/// An echo small enough to be filled by a test.
pub(crate) fn small_echo() -> EchoSettings {
    EchoSettings { blocks: Blocks::new(64), context: Tokens::new(512), ..EchoSettings::default() }
}

impl Running {
    pub(crate) async fn echo() -> Self {
        Self::start(small_echo(), |_| {}).await
    }

    /// Steps that take a while, so that a test can do something between them.
    pub(crate) async fn slow_echo() -> Self {
        let echo = EchoSettings { step_delay: Duration::from_millis(5), ..small_echo() };
        Self::start(echo, |_| {}).await
    }

    pub(crate) async fn start(echo: EchoSettings, adjust: fn(&mut EngineSettings)) -> Self {
        Self::start_with(echo, adjust, |_| {}).await
    }

    pub(crate) async fn start_with(
        settings_of_echo: EchoSettings,
        adjust: fn(&mut EngineSettings),
        serving: fn(&mut Settings),
    ) -> Self {
        Self::start_publishing(settings_of_echo, adjust, serving, None).await
    }

    /// With events of the cache, where settings for them are given.
    pub(crate) async fn start_publishing(
        settings_of_echo: EchoSettings,
        adjust: fn(&mut EngineSettings),
        serving: fn(&mut Settings),
        publishing: Option<KvEventsSettings>,
    ) -> Self {
        let nobody = Speculation::default();
        let extras = Extras { publishing, sharing: None, speculation: nobody };
        Self::start_all(settings_of_echo, adjust, serving, extras).await
    }

    /// With an echo that guesses for the echo, by this rule.
    pub(crate) async fn guessing(policy: &str) -> Self {
        Self::guessing_with(policy, |_| {}).await
    }

    /// The same, served otherwise.
    pub(crate) async fn guessing_with(policy: &str, serving: fn(&mut Settings)) -> Self {
        let speculation = Speculation {
            policy: policy.parse().unwrap(),
            depth_max: 4,
            lookup: Some(Lookup::default()),
            draft: Some(Box::new(EchoBackend::new(small_echo()))),
        };
        let extras = Extras { publishing: None, sharing: None, speculation };
        Self::start_all(small_echo(), |_| {}, serving, extras).await
    }

    /// With blocks that are shared.
    pub(crate) async fn sharing(echo: EchoSettings, sharing: KvShareSettings) -> Self {
        let speculation = Speculation::default();
        let extras = Extras { publishing: None, sharing: Some(sharing), speculation };
        Self::start_all(echo, |_| {}, |_| {}, extras).await
    }

    async fn start_all(
        settings_of_echo: EchoSettings,
        adjust: fn(&mut EngineSettings),
        serving: fn(&mut Settings),
        extras: Extras,
    ) -> Self {
        let Extras { publishing, sharing, speculation } = extras;
        let clock = Clock::start();
        let tokenizer = Arc::new(echo::tokenizer());
        let template = Arc::new(ChatTemplate::new(Some(ECHO_TEMPLATE), &tokenizer).unwrap());
        let backend = EchoBackend::new(settings_of_echo);
        let (shape, layout) = (backend.shape(), backend.block_layout().unwrap());
        let mut kv_share = None;
        let metrics = if let Some(sharing) = sharing {
            let (metrics, shared) =
                EngineMetrics::sharing("echo", shape, MetricNames::Both, speculation.guesses());
            let model = KvModel::read(&b"echo"[..], &layout.name).unwrap();
            kv_share = Some(KvShare::new(sharing, model, shape.block_size, &layout, clock, shared));
            metrics
        } else if speculation.guesses() {
            EngineMetrics::speculating("echo", backend.shape(), MetricNames::Both)
        } else {
            EngineMetrics::new("echo", backend.shape(), MetricNames::Both)
        };
        let mut settings = EngineSettings { entropy: 7, ..EngineSettings::new(clock) };
        adjust(&mut settings);
        let codec: Arc<dyn TextCodec> = Arc::clone(&tokenizer) as Arc<dyn TextCodec>;
        let (mut observer, mut kv_events, mut publisher) = (metrics.observer(), None, None);
        if let Some(settings) = publishing {
            let (events, runs) = KvEvents::bind(&settings, shape.block_size).await.unwrap();
            observer = events.observer(observer);
            (kv_events, publisher) = (Some(events), Some(runs));
        }
        if let Some(share) = &kv_share {
            observer = share.observer(observer);
        }
        let (backend, guesses) = (Box::new(backend), speculation);
        let engine = Engine::start_guessing(backend, codec, settings, observer, guesses).unwrap();
        let served = Served {
            engine: engine.handle(),
            tokenizer,
            template,
            document: TokenizerDocument::new(&echo::tokenizer_source(), Some(ECHO_TEMPLATE)),
            names: vec!["echo".to_owned(), "parrot".to_owned(), "org/echo".to_owned()],
            root: None,
            metrics,
            kv_events,
            kv_share,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(Notify::new());
        let end = Arc::clone(&stop);
        let mut settings = Settings::new(clock);
        serving(&mut settings);
        let task = tokio::spawn(async move {
            let serving = run(listener, served, settings, async move { end.notified().await });
            match publisher {
                Some(publisher) => publisher.beside(serving).await,
                None => serving.await,
            }
        });
        let running = Self { address, engine, stop, task };
        while running.get("/health").await.status != 200 {
            tokio::task::yield_now().await;
        }
        running
    }

    pub(crate) fn stats(&self) -> EngineStats {
        self.engine.handle().stats()
    }

    /// Waits until the engine's counts are so.
    pub(crate) async fn until(&self, holds: impl Fn(&EngineStats) -> bool) {
        let waiting = async {
            while !holds(&self.stats()) {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "never so within {PATIENCE:?}: {:?}", self.stats());
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) async fn ended(self) -> Drained {
        self.task.await.unwrap()
    }

    pub(crate) async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        Client { stream, buffer: Vec::new() }
    }

    /// Sends a request on a connection of its own and reads the answer to its end.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut client = self.connect().await;
        client.send(method, path, body).await;
        client.reply().await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &body.to_string()).await
    }

    pub(crate) async fn chat(&self, body: &Value) -> Reply {
        self.post("/v1/chat/completions", body).await
    }

    /// With more lines in the request's head.
    pub(crate) async fn chat_with(&self, lines: &str, body: &Value) -> Reply {
        self.post_with(lines, "/v1/chat/completions", body).await
    }

    /// With more lines in the request's head.
    pub(crate) async fn post_with(&self, lines: &str, path: &str, body: &Value) -> Reply {
        let (mut client, body) = (self.connect().await, body.to_string());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\
             content-length: {}\r\n\r\n",
            body.len()
        );
        client.send_raw(format!("{head}{body}").as_bytes()).await;
        client.reply().await
    }

    pub(crate) async fn complete(&self, body: &Value) -> Reply {
        self.post("/v1/completions", body).await
    }
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the body came to its proper end.
    pub(crate) whole: bool,
}

impl Client {
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // A worker that refuses early closes while we still send.
        let _sent = self.stream.write_all(head.as_bytes()).await;
        let _sent = self.stream.write_all(body.as_bytes()).await;
    }

    pub(crate) async fn send_raw(&mut self, text: &[u8]) {
        let _sent = self.stream.write_all(text).await;
    }

    /// Reads until the text has come.
    pub(crate) async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            assert!(self.more().await > 0, "closed before {text:?}: {:?}", self.seen());
        }
    }

    /// Reads to the connection's end.
    pub(crate) async fn reply(mut self) -> Reply {
        while self.more().await > 0 {}
        let text = self.seen();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let (body, whole) = if chunked { unchunked(body) } else { (body.to_owned(), true) };
        Reply { status, head: head.to_owned(), body, whole }
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    async fn more(&mut self) -> usize {
        self.stream.read_buf(&mut self.buffer).await.unwrap_or(0)
    }
}

fn unchunked(mut text: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(..length) else { break };
        body.push_str(chunk);
        text = rest.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream; the last is `[DONE]` as a string.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        let lines = self.body.split("\n\n").filter(|event| !event.is_empty());
        lines
            .map(|event| {
                let data = event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event:?}"));
                serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))
            })
            .collect()
    }

    /// The error's status, `param` and `code`.
    pub(crate) fn fault(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        let text = |name: &str| error[name].as_str().unwrap_or("-").to_owned();
        assert!(!text("message").is_empty() && text("type") != "-", "{self:?}");
        (self.status, text("param"), text("code"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .next()
            .unwrap_or("")
    }
}

/// A user's message.
pub(crate) fn user(text: &str) -> Value {
    serde_json::json!([{ "role": "user", "content": text }])
}
