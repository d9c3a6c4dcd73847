//! Connection to the collector: one, kept between batches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use overdraft_tls::{ClientSettings, ClientTls, TlsError};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::message::ExportResponse;

/// Bytes of a collector's answer that are read at most.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("overdraft-otlp/", env!("CARGO_PKG_VERSION")));

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The collector took it, but for so many spans.
    Taken { rejected: u64, words: String },
    /// It may take it later, perhaps after so long.
    Later { why: String, after: Option<Duration> },
    /// It never will.
    Refused { why: String },
}

/// A collector, and the connection to it while there is one.
#[derive(Debug)]
pub(crate) struct Collector {
    endpoint: Endpoint,
    headers: HeaderMap,
    timeout: Duration,
    /// What encrypts it, or why nothing can.
    tls: Option<Result<Arc<ClientTls>, TlsError>>,
    kept: Option<SendRequest<Full<Bytes>>>,
    /// Drives the connection.
    driver: JoinSet<()>,
}

impl Collector {
    /// One that has not been spoken to.
    pub(crate) fn new(endpoint: Endpoint, more: &HeaderMap, timeout: Duration) -> Self {
        let mut headers = more.clone();
        let host = HeaderValue::from_str(endpoint.authority.as_str())
            .expect("an authority that was parsed is a valid header");
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, PROTOBUF);
        headers.insert(USER_AGENT, AGENT);
        let tls =
            endpoint.is_encrypted.then(|| ClientTls::new(ClientSettings::default()).map(Arc::new));
        Self { endpoint, headers, timeout, tls, kept: None, driver: JoinSet::new() }
    }

    /// Sends a batch and reads what becomes of it.
    pub(crate) async fn post(&mut self, batch: Bytes) -> Posted {
        let patience = self.timeout;
        let posted = timeout(patience, self.exchange(batch)).await;
        let later = |why| Posted::Later { why, after: None };
        let posted = match posted {
            Ok(Ok(posted)) => return posted,
            Ok(Err(why)) => later(why),
            Err(_elapsed) => later(format!("it did not answer within {patience:?}")),
        };
        self.hang_up();
        posted
    }

    fn hang_up(&mut self) {
        self.kept = None;
        self.driver.abort_all();
    }

    async fn exchange(&mut self, batch: Bytes) -> Result<Posted, String> {
        // What it closed meanwhile is opened anew; a batch that was not sent is not lost.
        let mut sender = match self.kept.take() {
            Some(kept) if kept.is_ready() => kept,
            _ => self.connect().await?,
        };
        let mut request = Request::new(Full::new(batch));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.path.clone().into();
        request.headers_mut().clone_from(&self.headers);
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let posted = read(response).await?;
        self.kept = Some(sender);
        Ok(posted)
    }

    async fn connect(&mut self) -> Result<SendRequest<Full<Bytes>>, String> {
        self.hang_up();
        while self.driver.join_next().await.is_some() {}
        let (host, port) = (self.endpoint.host().to_owned(), self.endpoint.port);
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(unconnected)?;
        let Some(tls) = &self.tls else { return self.shake(stream).await };
        let tls = tls.as_ref().map_err(unconnected)?;
        let stream = tls.connect(&host, stream).await.map_err(unconnected)?;
        self.shake(stream).await
    }

    async fn shake<S>(&mut self, stream: S) -> Result<SendRequest<Full<Bytes>>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(unconnected)?;
        self.driver.spawn(async move {
            // How it ends is told to the request on it.
            let _ended = connection.await;
        });
        Ok(sender)
    }
}

async fn read(response: Response<Incoming>) -> Result<Posted, String> {
    let (head, body) = response.into_parts();
    let body = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        // Nothing that long is an answer of a collector; its status counts.
        Err(error) if error.is::<LengthLimitError>() => Bytes::new(),
        Err(error) => return Err(error.to_string()),
    };
    if head.status.is_success() {
        let partial = ExportResponse::decode(body).unwrap_or_default().partial_success;
        let partial = partial.unwrap_or_default();
        let rejected = u64::try_from(partial.rejected_spans).unwrap_or_default();
        return Ok(Posted::Taken { rejected, words: partial.error_message });
    }
    let why = format!("it answered {}", head.status);
    // As the specification of OTLP over HTTP has it.
    Ok(match head.status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Posted::Later { why, after: retry_after(&head.headers) },
        _ => Posted::Refused { why },
    })
}

fn retry_after(head: &HeaderMap) -> Option<Duration> {
    let seconds = head.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn unconnected(error: impl std::fmt::Display) -> String {
    format!("no connection: {error}")
}
