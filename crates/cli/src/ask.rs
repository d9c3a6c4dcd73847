//! Bounded HTTP request to a worker or a gateway: bounded in time and in bytes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, DATE, HOST, USER_AGENT};
use http::{Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overdraft_config::{Worker, host_and_port};
use overdraft_tls::{ClientSettings, ClientTls, Transport};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::settings;

/// How long one answer may take, connection and all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody listens there.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// Somebody listens, and no encrypted connection comes of it.
    #[error("no TLS connection: {0}")]
    Untrusted(String),
    /// Somebody listens and says nothing.
    #[error("no answer within {0:?}")]
    Silent(Duration),
    /// What came is not HTTP, breaks off, or is too long.
    #[error("no usable answer: {0}")]
    Broken(String),
}

/// Where a question goes.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What encrypts it, if anything does.
    pub(crate) tls: Option<Arc<ClientTls>>,
}

impl Address {
    /// Of a URL; `https` is believed whom the system trusts, or the file that `SSL_CERT_FILE` names.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn of_url(url: &str) -> Result<Self, String> {
        Self::with_tls(url, ClientSettings::default())
    }

    /// Of a worker.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn of_worker(worker: &Worker) -> Result<Self, String> {
        Self::with_tls(&worker.url, settings::tls::worker(&worker.tls))
    }

    /// Of a URL, by these settings where it is encrypted.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn with_tls(url: &str, tls: ClientSettings) -> Result<Self, String> {
        let (host, port) = host_and_port(url).map_err(|error| error.to_string())?;
        let tls = url.starts_with("https://").then(|| ClientTls::new(tls).map(Arc::new));
        Ok(Self { host, port, tls: tls.transpose().map_err(|error| error.to_string())? })
    }
}

/// How much of an answer's body is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// None: the status tells enough.
    Status,
    /// All of it, up to this many bytes.
    Body(usize),
}

/// `GET path`.
///
/// # Errors
/// Says how it failed; any status is an answer.
pub(crate) async fn get(
    address: &Address,
    path: &str,
    want: Want,
) -> Result<(StatusCode, Bytes), AskError> {
    ask(address, Request::get(path), Bytes::new(), want).await
}

/// The request that was begun, with `body`, which is JSON unless empty.
///
/// # Errors
/// Says how it failed; any status is an answer.
pub(crate) async fn ask(
    address: &Address,
    request: request::Builder,
    body: Bytes,
    want: Want,
) -> Result<(StatusCode, Bytes), AskError> {
    within(PATIENCE, address, request, body, want).await
}

/// The same, within another time.
///
/// # Errors
/// Says how it failed; any status is an answer.
pub(crate) async fn within(
    patience: Duration,
    address: &Address,
    request: request::Builder,
    body: Bytes,
    want: Want,
) -> Result<(StatusCode, Bytes), AskError> {
    match timeout(patience, exchange(address, request, body, want)).await {
        Ok(answered) => answered,
        Err(_elapsed) => Err(AskError::Silent(patience)),
    }
}

/// Bytes that a server which speaks first is heard for.
pub(crate) const GREETING_BYTES: usize = 10;

/// What a server says before it is asked anything.
///
/// # Errors
/// Says how it failed; one that waits to be asked is silent.
pub(crate) async fn greeting(address: &Address) -> Result<[u8; GREETING_BYTES], AskError> {
    let listening = async {
        let mut stream = connect(address).await?;
        let mut greeting = [0; GREETING_BYTES];
        let heard = stream.read_exact(&mut greeting).await;
        heard.map_err(|error| AskError::Broken(error.to_string()))?;
        Ok(greeting)
    };
    match timeout(PATIENCE, listening).await {
        Ok(heard) => heard,
        Err(_elapsed) => Err(AskError::Silent(PATIENCE)),
    }
}

/// What time it is at a server, to the second, if it tells.
pub(crate) async fn clock(address: &Address, path: &str) -> Option<SystemTime> {
    let telling = async {
        let (response, _driver) = response(address, Request::get(path), Bytes::new()).await.ok()?;
        httpdate::parse_http_date(response.headers().get(DATE)?.to_str().ok()?).ok()
    };
    timeout(PATIENCE, telling).await.ok()?
}

/// A connection, not encrypted yet.
///
/// # Errors
/// Says why there is none.
pub(crate) async fn connect(address: &Address) -> Result<TcpStream, AskError> {
    TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(|error| AskError::Unreachable(error.to_string()))
}

async fn exchange(
    address: &Address,
    request: request::Builder,
    body: Bytes,
    want: Want,
) -> Result<(StatusCode, Bytes), AskError> {
    let (response, _driver) = response(address, request, body).await?;
    let status = response.status();
    let Want::Body(bytes_max) = want else { return Ok((status, Bytes::new())) };
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|error| AskError::Broken(error.to_string()))?;
    Ok((status, body.to_bytes()))
}

/// The driver of a connection: the body of its response comes while this is kept.
type Driver = JoinSet<Result<(), hyper::Error>>;

async fn response(
    address: &Address,
    request: request::Builder,
    body: Bytes,
) -> Result<(Response<Incoming>, Driver), AskError> {
    let stream = connect(address).await?;
    let stream = match &address.tls {
        None => Transport::Plain(stream),
        Some(tls) => {
            let agreed = Box::pin(tls.connect(&address.host, stream)).await;
            let untold = |error: std::io::Error| AskError::Untrusted(error.to_string());
            Transport::Encrypted(Box::new(agreed.map_err(untold)?))
        }
    };
    let broken = |error: hyper::Error| AskError::Broken(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let host = if address.host.contains(':') {
        format!("[{}]:{}", address.host, address.port)
    } else {
        format!("{}:{}", address.host, address.port)
    };
    let request = request
        .header(HOST, host)
        .header(USER_AGENT, concat!("overdraft/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| AskError::Broken(error.to_string()))?;
    Ok((sender.send_request(request).await.map_err(broken)?, driver))
}
