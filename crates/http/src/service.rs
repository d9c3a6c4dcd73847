//! Service: what answers the requests of a listener.

use std::future::Future;

use http::{Request, Response};

use crate::body::{Body, RequestBody};
use crate::exchange::Exchange;

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
}
