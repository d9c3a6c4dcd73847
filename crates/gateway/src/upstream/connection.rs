//! Upstream connection: one connection to a worker, polled by the request that uses it.
//!
//! hyper splits a client connection into a handle to send with and a future that moves the bytes.
//! The usual arrangement gives that future a task; then every token wakes two tasks. Here both
//! halves live in the task of the request: waiting for a frame polls the driver first.
//!
//! Invariant: the driver is polled by one task at a time, and the one that waits on the connection
//! is the one it wakes.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overdraft_http::WakeCoalescer;

use super::socket::{Socket, WorkerStream};
use super::{Outgoing, Pieces};

type Driver = http1::Connection<TokioIo<Socket>, Pieces>;

/// Header lines of an answer at most.
const ANSWER_HEADERS_MAX: usize = 128;

/// Whether a connection can take another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// The last answer has ended and both sides keep the connection open.
    Reusable,
    /// It is closed, or something is still under way.
    Spent,
}

/// A connection to one worker.
pub(crate) struct Connection {
    sender: http1::SendRequest<Pieces>,
    /// In a box of its own: it is large, and on its way from the pool through an answer and back a
    /// connection is moved a dozen times.
    driver: Box<Driver>,
    quiet: WakeCoalescer,
    ended: bool,
}

impl Connection {
    pub(super) async fn handshake(
        stream: WorkerStream,
        head_bytes: usize,
    ) -> Result<Self, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_headers(ANSWER_HEADERS_MAX)
            .max_buf_size(head_bytes)
            .handshake(TokioIo::new(Socket::new(stream)))
            .await?;
        Ok(Self { sender, driver: Box::new(driver), quiet: WakeCoalescer::new(), ended: false })
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn exchange(
        &mut self,
        request: Outgoing,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut answer = pin!(self.sender.send_request(request));
        let (driver, ended) = (&mut *self.driver, &mut self.ended);
        poll_fn(|cx| {
            self.quiet.poll(cx, |cx| {
                drive(driver, ended, cx);
                answer.as_mut().poll(cx)
            })
        })
        .await
    }

    /// Waits for the next frame of the body of an answer that comes over this connection.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let (driver, ended) = (&mut *self.driver, &mut self.ended);
        self.quiet.poll(cx, |cx| {
            // First ask, then drive, then ask again: asking tells the driver that there is room,
            // and only a driver that knows of room reads.
            let frame = Pin::new(&mut *incoming).poll_frame(cx);
            if frame.is_ready() {
                return frame;
            }
            drive(driver, ended, cx);
            Pin::new(&mut *incoming).poll_frame(cx)
        })
    }

    /// Whether it can take another request now, as far as can be known without asking the peer.
    pub(super) fn freshness(&mut self) -> Freshness {
        let (driver, ended) = (&mut *self.driver, &mut self.ended);
        let _settled: Poll<()> = self.quiet.poll(&Context::from_waker(Waker::noop()), |cx| {
            drive(driver, ended, cx);
            Poll::Pending
        });
        if !self.ended && self.sender.is_ready() { Freshness::Reusable } else { Freshness::Spent }
    }
}

fn drive(driver: &mut Driver, ended: &mut bool, cx: &mut Context<'_>) {
    if !*ended && let Poll::Ready(_outcome) = Pin::new(driver).poll(cx) {
        // What went wrong is told through the answer or its body.
        *ended = true;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("ended", &self.ended).finish_non_exhaustive()
    }
}
