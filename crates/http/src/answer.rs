//! One request from its head to its answer's last byte, watched.
//!
//! The handler's future and the answer's body are wrapped so that a panic in either costs one
//! request and no more, and so that the access line knows whether the client got everything.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use overdraft_telemetry::{Ender, RequestId};
use overdraft_wire::ApiError;

use crate::body::{Body, BoxError};
use crate::exchange::AccessGuard;
use crate::reply;
use crate::streams::AnswerPulse;

/// The header that names a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

type Handler = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request being answered.
pub(crate) struct Answering {
    handler: Handler,
    id: RequestId,
    /// Gone with the answer.
    guard: Option<AccessGuard>,
    /// Of a request that has a task of its own (HTTP/2).
    pulse: Option<Arc<AnswerPulse>>,
}

impl Answering {
    pub(crate) fn new(
        handler: Handler,
        id: RequestId,
        guard: AccessGuard,
        pulse: Option<Arc<AnswerPulse>>,
    ) -> Self {
        Self { handler, id, guard: Some(guard), pulse }
    }

    fn failed(&mut self, panic: &(dyn Any + Send)) -> Response<Body> {
        tracing::error!(request = %self.id, panic = panic_text(panic), "a handler panicked");
        if let Some(guard) = &mut self.guard {
            guard.broke(Ender::Defect);
        }
        let sentence =
            format!("the server failed in a way that it should not; request {}", self.id);
        reply::error(&ApiError::server_error(sentence))
    }
}

impl Future for Answering {
    type Output = Result<Response<Watched>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = catch_unwind(AssertUnwindSafe(|| this.handler.as_mut().poll(cx)));
        let mut response = match polled {
            Ok(polled) => ready!(polled),
            Err(panic) => this.failed(&*panic),
        };
        if let Ok(name) = HeaderValue::from_str(this.id.as_str()) {
            response.headers_mut().insert(REQUEST_ID, name);
        }
        let pulse = this.pulse.take();
        if pulse.is_some() {
            // HTTP/2 ends streams, not connections (RFC 9113, section 8.2.2).
            response.headers_mut().remove(CONNECTION);
        } else if this.guard.as_ref().is_some_and(AccessGuard::is_leaving) {
            // Kept, it would be closed when accepting ends, perhaps under the next request: the client makes another
            // one now, and load balancers lead it elsewhere.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let status = response.status();
        if let Some(guard) = &this.guard {
            guard.answered(status);
        }
        let guard = this.guard.take();
        Poll::Ready(Ok(response.map(|body| Watched {
            body,
            guard,
            pulse,
            bodiless: bodiless(status),
            broken: None,
        })))
    }
}

/// Statuses whose answers end with their head; hyper never asks for their body.
fn bodiless(status: StatusCode) -> bool {
    status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
}

/// The body of an answer, watched to its end.
pub(crate) struct Watched {
    body: Body,
    guard: Option<AccessGuard>,
    pulse: Option<Arc<AnswerPulse>>,
    bodiless: bool,
    broken: Option<Broken>,
}

/// An answer that broke off, held back until what came before it has left: hyper throws away what it
/// has not sent yet when a body fails, and with it the event that says why.
struct Broken {
    error: BoxError,
    ender: Ender,
    flush: u64,
}

impl Watched {
    fn broke(&mut self, error: BoxError, ender: Ender) {
        let flush = self.guard.as_ref().map_or(0, |guard| guard.line().next_flush());
        self.broken = Some(Broken { error, ender, flush });
    }

    fn poll_broken(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let (Some(broken), Some(guard)) = (&self.broken, &self.guard) {
            ready!(guard.line().poll_flushed(broken.flush, cx));
        }
        let Some(broken) = self.broken.take() else {
            return Poll::Ready(None);
        };
        self.settle(Err(broken.ender));
        Poll::Ready(Some(Err(broken.error)))
    }

    fn settle(&mut self, ended: Result<(), Ender>) {
        if let Some(mut guard) = self.guard.take() {
            match ended {
                Ok(()) => guard.whole(),
                Err(ender) => guard.broke(ender),
            }
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(pulse) = &this.pulse {
            pulse.note_asked();
        }
        if this.broken.is_some() {
            return this.poll_broken(cx);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut this.body).poll_frame(cx)));
        let frame = match polled {
            Ok(polled) => ready!(polled),
            Err(panic) => {
                tracing::error!(panic = panic_text(&*panic), "an answer panicked");
                this.broke("the answer broke off".into(), Ender::Defect);
                return this.poll_broken(cx);
            }
        };
        match frame {
            None => {
                this.settle(Ok(()));
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                this.broke(error, Ender::Server);
                this.poll_broken(cx)
            }
            Some(Ok(frame)) => {
                if this.body.is_end_stream() {
                    this.settle(Ok(()));
                }
                if let Some(pulse) = &this.pulse {
                    pulse.note_taken();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.bodiless || self.body.is_end_stream() {
            self.settle(Ok(()));
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
