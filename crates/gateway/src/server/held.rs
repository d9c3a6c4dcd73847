//! Held streams: a client that waits for a worker to come up is sent comments meanwhile, so that nobody between closes
//! its connection (heartbeats).
//!
//! Invariant: from the first comment on the status is 200, so whatever is refused after that is told as an error event,
//! and the connection is aborted.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use overdraft_http::{Body, BoxError, BrokenOff, Exchange, RequestBody};
use overdraft_wire::Endpoint;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Gateway;
use super::forward::{Intake, forward};
use crate::pipeline::context::RequestContext;
use crate::pipeline::relay::ErrorShape;
use crate::pipeline::request_guard::RequestGuard;

/// What a client reads over that waits.
const COMMENT: &[u8] = b": waiting for a worker\n\n";

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Bytes of a refusal that are told at most.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// An answer that is being made.
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that may be held, as a listener hands it over.
pub(super) struct Incoming {
    pub(super) exchange: Exchange,
    pub(super) head: Parts,
    pub(super) endpoint: Endpoint,
    pub(super) guard: RequestGuard,
    pub(super) body: RequestBody,
}

/// Forwards a request; its client is sent a comment as often as this once it has been held for as long.
pub(super) async fn forward_held(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    every: Duration,
) -> Response<Body> {
    let (held, mut is_held) = watch::channel(false);
    let gateway = Arc::clone(gateway);
    let mut answering: Answering = Box::pin(async move {
        let Incoming { exchange, head, endpoint, guard, body } = incoming;
        let context = RequestContext::new(&exchange, &head, endpoint).guarded_by(guard).told(held);
        forward(&gateway, context, Intake::Sent(body)).await
    });
    let is_late = async {
        loop {
            if is_held.wait_for(|is_held| *is_held).await.is_err() {
                // It is held no more, and will not be.
                std::future::pending::<()>().await;
            }
            sleep(every).await;
            if *is_held.borrow() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        response = &mut answering => response,
        () = is_late => waiting(answering, every, ErrorShape::Chat),
    }
}

/// The answer to a client that still waits; an error in it has that shape.
pub(super) fn waiting(answering: Answering, every: Duration, shape: ErrorShape) -> Response<Body> {
    let body =
        Body::unfold(State::Begun(answering), move |state| step(state, every, shape.clone()));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

enum State {
    /// The head is on its way.
    Begun(Answering),
    /// Nothing but comments has been told.
    Waiting(Answering),
    /// The answer has begun.
    Relaying(Body),
    /// The error has been handed over and must leave before the connection does.
    Refused,
}

async fn step(
    state: State,
    every: Duration,
    shape: ErrorShape,
) -> Result<Option<(Bytes, State)>, BoxError> {
    let comment = Bytes::from_static(COMMENT);
    match state {
        // Begun => Waiting
        State::Begun(answering) => Ok(Some((comment, State::Waiting(answering)))),
        // Waiting => Waiting | Relaying | Refused
        State::Waiting(mut answering) => tokio::select! {
            biased;
            response = &mut answering => answered(response, &shape).await,
            () = sleep(every) => Ok(Some((comment, State::Waiting(answering)))),
        },
        // Relaying => Relaying
        State::Relaying(body) => relay(body).await,
        State::Refused => {
            // A body that has nothing to give makes hyper flush.
            tokio::task::yield_now().await;
            Err(BrokenOff.into())
        }
    }
}

async fn answered(
    response: Response<Body>,
    shape: &ErrorShape,
) -> Result<Option<(Bytes, State)>, BoxError> {
    let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|told| {
        told.as_bytes().starts_with(EVENTS.as_bytes()) && response.status().is_success()
    });
    if is_stream {
        return relay(response.into_body()).await;
    }
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await?.to_bytes();
    Ok(Some((shape.event_of(status, &body), State::Refused)))
}

/// The next bytes of an answer.
async fn relay(mut body: Body) -> Result<Option<(Bytes, State)>, BoxError> {
    loop {
        match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(error)) => return Err(error),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some((data, State::Relaying(body))));
                }
            }
        }
    }
}
