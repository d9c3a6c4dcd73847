//! Cloud metadata client: requests to the link-local metadata server.
//!
//! Each request has a connection of its own: the server is a hop away, and requests are rare.
//! Invariant: an answer takes at most the time and the bytes that it is given.

use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overdraft_units::port_of;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::NoticeError;
use crate::settings::NoticeSettings;
use crate::upstream::headers;

/// The address that all three clouds agree on; Google's name for it would need a name server.
const SERVER: &str = "http://169.254.169.254";

/// Maximum bytes of an answer. A list of scheduled events is a few hundred.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A metadata server.
#[derive(Debug)]
pub(super) struct Metadata {
    host: String,
    port: u16,
    authority: HeaderValue,
    timeout: Duration,
}

/// A request to the metadata server.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) header: (HeaderName, HeaderValue),
}

impl Metadata {
    pub(super) fn new(settings: &NoticeSettings) -> Result<Self, NoticeError> {
        let url = settings.server.as_deref().unwrap_or(SERVER);
        Self::parse(url, settings.timeout)
            .ok_or_else(|| NoticeError::Server { url: url.to_owned() })
    }

    fn parse(url: &str, timeout: Duration) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let authority = uri.authority()?;
        let plain = uri.scheme() == Some(&Scheme::HTTP)
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none()
            && !authority.as_str().contains('@');
        plain.then_some(())?;
        Some(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: port_of(authority.as_str(), 80).ok()?,
            authority: HeaderValue::from_str(authority.as_str()).ok()?,
            timeout,
        })
    }

    /// Sends a request; an answer with any status is a success.
    pub(super) async fn ask(&self, question: Question) -> Result<Response<Bytes>, NoticeError> {
        let exchange = self.exchange(question);
        timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_elapsed| Err(NoticeError::TimedOut(self.timeout)))
    }

    /// Sends a request that must succeed.
    pub(super) async fn text(&self, question: Question) -> Result<String, NoticeError> {
        let path = question.path;
        let answer = self.ask(question).await?;
        if answer.status() != StatusCode::OK {
            return Err(NoticeError::Status { path, status: answer.status() });
        }
        text(path, &answer)
    }

    async fn exchange(&self, question: Question) -> Result<Response<Bytes>, NoticeError> {
        let request = self.request(question);
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = TokioIo::new(stream.map_err(NoticeError::Unreachable)?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(broken)?;
        let answer = async {
            let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            Ok(Response::from_parts(head, body.map_err(NoticeError::Broken)?.to_bytes()))
        };
        let driven = async {
            // What went wrong is told through the answer.
            let _ended = connection.await;
            std::future::pending().await
        };
        tokio::select! {
            answer = answer => answer,
            never = driven => never,
        }
    }

    fn request(&self, question: Question) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.method_mut() = question.method;
        *request.uri_mut() = Uri::from_static(question.path);
        let (name, value) = question.header;
        let fields = request.headers_mut();
        fields.insert(HOST, self.authority.clone());
        fields.insert(USER_AGENT, headers::AGENT);
        fields.insert(name, value);
        request
    }
}

/// An answer that should be text.
pub(super) fn text(path: &'static str, answer: &Response<Bytes>) -> Result<String, NoticeError> {
    let text = std::str::from_utf8(answer.body());
    text.map(str::to_owned).map_err(|_| NoticeError::Answer { path, expected: "text" })
}

fn broken(error: hyper::Error) -> NoticeError {
    NoticeError::Broken(error.into())
}
