//! Bounded HTTP request to a worker or a gateway: bounded in time and in bytes.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long one answer may take, connection and all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody listens there.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// Somebody listens and says nothing.
    #[error("no answer within {PATIENCE:?}")]
    Silent,
    /// What came is not HTTP, breaks off, or is too long.
    #[error("no usable answer: {0}")]
    Broken(String),
}

/// Where a question goes.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
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
    match timeout(PATIENCE, exchange(address, request, body, want)).await {
        Ok(answered) => answered,
        Err(_elapsed) => Err(AskError::Silent),
    }
}

/// Whether somebody listens there.
pub(crate) async fn connects(address: &Address) -> Result<(), AskError> {
    match timeout(PATIENCE, connect(address)).await {
        Ok(connected) => connected.map(drop),
        Err(_elapsed) => Err(AskError::Silent),
    }
}

async fn connect(address: &Address) -> Result<TcpStream, AskError> {
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
    let stream = connect(address).await?;
    let broken = |error: hyper::Error| AskError::Broken(error.to_string());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Drives the connection; ends with this function.
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
    let response = sender.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let Want::Body(bytes_max) = want else { return Ok((status, Bytes::new())) };
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|error| AskError::Broken(error.to_string()))?;
    Ok((status, body.to_bytes()))
}
