//! Small fetches from a worker: health, models, metrics and tokens.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::AUTHORIZATION;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode, Uri};

use crate::upstream::headers;
use crate::upstream::{AnswerBody, Outgoing, Pieces, Upstream, UpstreamError};

/// Why a page was not had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The worker cannot be asked, or does not answer.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The page broke off.
    #[error("the page broke off")]
    BrokenOff,
    /// It has no end, or might as well.
    #[error("the page is longer than {0} bytes")]
    TooLong(usize),
    /// It did not come in time.
    #[error("the page did not come within {0:?}")]
    TimedOut(Duration),
}

/// Asks for `path`, taking at most `bytes_max` bytes.
pub(crate) async fn fetch(
    upstream: &Arc<Upstream>,
    path: &'static str,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), FetchError> {
    fetch_as(upstream, path, bytes_max, None).await
}

/// The same, shown `key` where the worker's own is not known.
pub(crate) async fn fetch_as(
    upstream: &Arc<Upstream>,
    path: &'static str,
    bytes_max: usize,
    key: Option<&HeaderValue>,
) -> Result<(StatusCode, Bytes), FetchError> {
    exchange(upstream, || question(upstream, path, key, Pieces::default()), bytes_max).await
}

/// Puts a JSON body to `path`, taking at most `bytes_max` bytes.
pub(crate) async fn post(
    upstream: &Arc<Upstream>,
    path: &'static str,
    body: Bytes,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), FetchError> {
    let make = || {
        let mut request = question(upstream, path, None, Pieces::from(body.clone()));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, headers::JSON);
        request
    };
    exchange(upstream, make, bytes_max).await
}

async fn exchange(
    upstream: &Arc<Upstream>,
    make: impl Fn() -> Outgoing,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), FetchError> {
    let (response, connection) = upstream.exchange(make).await?;
    let (head, incoming) = response.into_parts();
    let mut body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
    let mut collected = BytesMut::new();
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data.map_err(|_error| FetchError::BrokenOff)?;
        if bytes_max - collected.len() < data.len() {
            return Err(FetchError::TooLong(bytes_max));
        }
        collected.extend_from_slice(&data);
    }
    Ok((head.status, collected.freeze()))
}

fn question(
    upstream: &Upstream,
    path: &'static str,
    key: Option<&HeaderValue>,
    body: Pieces,
) -> Outgoing {
    let mut request = Outgoing::new(body);
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static(path);
    *request.headers_mut() = headers::own(upstream);
    if let (Some(key), None) = (key, &upstream.key) {
        request.headers_mut().insert(AUTHORIZATION, key.clone());
    }
    request
}
