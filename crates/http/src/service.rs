//! Service: what answers the requests of a listener.

use std::future::Future;

use http::request::Parts;
use http::{HeaderMap, Request, Response};

use crate::body::Body;
use crate::exchange::Exchange;
use crate::request_body::RequestBody;

/// Answers requests.
///
/// The future is dropped when the client goes away before the answer has begun, the answer's body
/// when it goes away later.
pub trait Service: Send + Sync + 'static {
    /// Answers one request.
    fn call(
        &self,
        exchange: Exchange,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Completes the head of a refusal that the listener itself gives to `request`.
    fn sign_refusal(&self, _request: &Parts, _head: &mut HeaderMap) {}
}
