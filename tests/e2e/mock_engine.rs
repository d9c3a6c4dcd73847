//! Mock engine: answers as vLLM does, but for one fault that a test plants; and peers that speak no HTTP.
#![expect(clippy::disallowed_methods, reason = "a mock of an engine takes its time")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use overdraft_wire::zmtp::{SocketKind, opening};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// Metrics of a vLLM without a fault.
pub(crate) const PAGE: &str = "\
vllm:num_requests_running{model_name=\"large\"} 0
vllm:num_requests_waiting{model_name=\"large\"} 0
vllm:kv_cache_usage_perc{model_name=\"large\"} 0.1
vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",num_gpu_blocks=\"1000\"} 1
vllm:prefix_cache_queries_total{model_name=\"large\"} 10
vllm:prefix_cache_hits_total{model_name=\"large\"} 5
";

const TOKENS: &str = "[1, 2, 3]";
/// What another tokenizer makes of the same text.
pub(crate) const OTHER_TOKENS: &str = "[1, 7]";
/// How long an answer of 64 tokens takes.
const PACE: Duration = Duration::from_millis(50);

/// How an engine answers.
#[derive(Clone)]
pub(crate) struct Engine {
    /// The page of metrics, none where it has none.
    pub(crate) metrics: Option<String>,
    /// What it makes of every text.
    pub(crate) tokens: &'static str,
    /// How long an answer of 64 tokens takes.
    pub(crate) pace: Duration,
    /// What its clock is ahead of ours.
    pub(crate) clock_ahead: Duration,
    /// The key that it wants.
    pub(crate) key: Option<&'static str>,
}

/// A running mock; it ends with the process of the test.
pub(crate) struct Mock {
    pub(crate) address: SocketAddr,
    pub(crate) model: &'static str,
}

impl Mock {
    /// An engine that serves `model`, with the fault that `plant` makes.
    pub(crate) fn start(model: &'static str, plant: impl FnOnce(&mut Engine)) -> Self {
        let metrics = Some(PAGE.to_owned());
        let mut engine =
            Engine { metrics, tokens: TOKENS, pace: PACE, clock_ahead: Duration::ZERO, key: None };
        plant(&mut engine);
        let address = listen(move |mut stream| {
            if let Some(request) = Asked::read(&stream) {
                let answer = engine.answer(model, &request);
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, model }
    }

    /// One whose answers of 64 tokens take so many milliseconds.
    pub(crate) fn slow(model: &'static str, milliseconds: u64) -> Self {
        Self::start(model, |engine| engine.pace = Duration::from_millis(milliseconds))
    }
}

/// One request, as far as a mock looks.
struct Asked {
    path: String,
    key: Option<String>,
}

impl Asked {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream);
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let (mut key, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => key = value.strip_prefix("Bearer ").map(str::to_owned),
                _ => {}
            }
        }
        lines.read_exact(&mut vec![0; length]).ok()?;
        Some(Self { path, key })
    }
}

impl Engine {
    fn answer(&self, model: &str, asked: &Asked) -> String {
        let (status, body) = self.said(model, asked);
        let date = httpdate::fmt_http_date(SystemTime::now() + self.clock_ahead);
        let length = body.len();
        format!(
            "HTTP/1.1 {status} Said\r\ndate: {date}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn said(&self, model: &str, asked: &Asked) -> (u16, String) {
        // vLLM's metrics need no key.
        let is_open = self.key.is_none_or(|key| asked.key.as_deref() == Some(key));
        match (asked.path.as_str(), &self.metrics) {
            ("/metrics", Some(page)) => (200, page.clone()),
            _ if !is_open => (401, r#"{"error": "Unauthorized"}"#.to_owned()),
            ("/v1/models", _) => (200, format!(r#"{{"data": [{{"id": "{model}"}}]}}"#)),
            ("/tokenize", _) => (200, format!(r#"{{"tokens": {}}}"#, self.tokens)),
            ("/v1/completions", _) => {
                std::thread::sleep(self.pace);
                (200, r#"{"usage": {"completion_tokens": 64}}"#.to_owned())
            }
            _ => (404, r#"{"detail": "Not Found"}"#.to_owned()),
        }
    }
}

/// Serves each connection by a thread of its own, for as long as the test's process lives.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A publisher of `ZeroMQ` that takes every subscriber and says nothing.
pub(crate) fn silent_publisher() -> SocketAddr {
    listen(|mut stream| {
        let _gone = stream.write_all(&opening(SocketKind::Publisher));
        let _ended = stream.read_to_end(&mut Vec::new());
    })
}

/// A server with TLS whose certificate names another host, and who signed it, as PEM.
pub(crate) fn tls_of_another_name() -> (SocketAddr, String) {
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key).expect("a certificate");
    let issuer = Issuer::new(parameters, key);
    let own = KeyPair::generate().expect("a key");
    let named = CertificateParams::new(vec!["redis.other".to_owned()]).expect("a name");
    let certificate = named.signed_by(&own, &issuer).expect("a certificate");
    let private = PrivateKeyDer::Pkcs8(own.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a certificate and its key");
    let config = Arc::new(config);
    let address = listen(move |mut stream| {
        let mut connection =
            rustls::ServerConnection::new(Arc::clone(&config)).expect("a good configuration");
        // The client hangs up on the certificate.
        let _refused = connection.complete_io(&mut stream);
    });
    (address, authority.pem())
}

/// What a server of lines answers to one, as far as it comes at once.
pub(crate) fn line(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("it is taken");
    let mut bytes = [0; 16 * 1024];
    let read = stream.read(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}
