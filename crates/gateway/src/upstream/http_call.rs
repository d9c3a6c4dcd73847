//! One-shot HTTP call: a request to an exporter, a webhook or an issuer of tokens over a connection of its own.
//!
//! Such calls are rare, so there is no connection pool. Invariant: a call takes at most the time
//! and the bytes that it is given.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overdraft_tls::{ClientTls, Transport};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::headers;
use super::socket::WorkerStream;
use crate::settings::{Token, WebAddress};

/// A request and its address.
#[derive(Debug)]
pub(crate) struct HttpCall<'a> {
    pub(crate) place: &'a WebAddress,
    /// What the connection is encrypted by; none where the place is one of plain HTTP.
    pub(crate) tls: Option<&'a ClientTls>,
    pub(crate) method: Method,
    pub(crate) token: Option<&'a Token>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpCallError {
    #[error("no connection: {0}")]
    Connect(std::io::Error),
    #[error("no TLS connection: {0}")]
    Handshake(std::io::Error),
    #[error("no answer: {0}")]
    Broken(hyper::Error),
    #[error("the answer broke off, or is not HTTP")]
    BrokenOff,
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the token cannot be sent in a header")]
    Token,
}

impl HttpCall<'_> {
    /// Sends the request; an answer with any status is a success.
    pub(crate) async fn run(self) -> Result<(StatusCode, Bytes), HttpCallError> {
        let patience = self.timeout;
        let ran = timeout(patience, self.exchange()).await;
        ran.unwrap_or_else(|_elapsed| Err(HttpCallError::TimedOut(patience)))
    }

    async fn exchange(self) -> Result<(StatusCode, Bytes), HttpCallError> {
        let request = self.request()?;
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) =
            http1::handshake(stream).await.map_err(HttpCallError::Broken)?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(HttpCallError::Broken)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, self.answer_bytes).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    HttpCallError::TooLong(self.answer_bytes)
                } else {
                    HttpCallError::BrokenOff
                }
            })?;
            Ok((head.status, body.to_bytes()))
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

    async fn connect(&self) -> Result<WorkerStream, HttpCallError> {
        let stream = TcpStream::connect((self.place.host(), self.place.port())).await;
        let stream = stream.map_err(HttpCallError::Connect)?;
        let Some(tls) = self.tls else { return Ok(Transport::Plain(stream)) };
        let agreed = tls.connect(self.place.host(), stream).await;
        Ok(Transport::Encrypted(Box::new(agreed.map_err(HttpCallError::Handshake)?)))
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, HttpCallError> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(self.place.path.clone());
        let host = HeaderValue::from_str(self.place.authority.as_str())
            .expect("an authority that was parsed is a valid header");
        let fields = request.headers_mut();
        fields.insert(HOST, host);
        fields.insert(USER_AGENT, headers::AGENT);
        if self.method == Method::POST {
            fields.insert(CONTENT_TYPE, headers::JSON);
        }
        if let Some(token) = self.token {
            let bearer = format!("Bearer {}", token.reveal());
            let mut bearer =
                HeaderValue::from_str(&bearer).map_err(|_invalid| HttpCallError::Token)?;
            bearer.set_sensitive(true);
            fields.insert(AUTHORIZATION, bearer);
        }
        Ok(request)
    }
}
