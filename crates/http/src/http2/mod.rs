//! HTTP/2 on one connection: its streams, its deadlines, and how it ends (RFC 9113).
//!
//! What a client may do with the connection as a whole is bounded here and in [`flood_meter`]; what it may do with
//! one stream by the same limits as a request of HTTP/1.

mod flood_meter;
mod frame_scanner;
mod socket;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};

use self::socket::MultiplexedSocket;
use crate::acceptor::{Acceptor, Client};
use crate::deadline_timer::DeadlineTimer;
use crate::drain::{Awaited, Drain};
use crate::limits::Http2Limits;
use crate::line::Line;
use crate::service::Service;
use crate::shared::{LINGER, ListenerStream};
use crate::streams::{StreamStarter, Streams};
use crate::wake_coalescer::WakeCoalescer;

/// How a client that speaks HTTP/2 without TLS begins ("prior knowledge", RFC 9113, section 3.3).
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Streams that a client may open and reset before they have been looked at (CVE-2023-44487); the next one ends the
/// connection. Those that it resets later are counted by the [`flood_meter`].
const RESETS_UNSEEN_MAX: usize = 20;

/// Streams that may be refused or reset here for the client's errors in the life of a connection (CVE-2025-8671).
const RESETS_OWN_MAX: usize = 1_024;

/// Bytes of one request's body that a client may send ahead of its being read.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// The same of all requests of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Bytes of one frame at most: the least that everybody has to take.
const FRAME_BYTES_MAX: u32 = 16 * 1024;

/// Bytes of one answer that are kept for a client which does not make room; a larger event is kept whole.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Silence after which a client is asked whether it is there, and how long it has to say so.
const PING: Duration = Duration::from_secs(20);

/// Whether a connection of HTTP/1 that found no request in these bytes is one of HTTP/2.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(BEGINNING)
}

/// Serves a client that speaks HTTP/2, of whose bytes `begun` have been read.
pub(crate) async fn serve<S: Service>(
    stream: ListenerStream,
    begun: Bytes,
    client: Client<S>,
    limits: Http2Limits,
) {
    let (shared, peer) = (Arc::clone(&client.shared), client.peer);
    let line = Arc::new(Line::multiplexed());
    let _entered = shared.idle.enter(&line);
    let streams = Streams::new(shared.limits.write_stall);
    let mut quiet = Quiet::new(Arc::clone(&line), &client.drain, shared.limits.idle);
    let socket =
        MultiplexedSocket::new(stream, begun, Arc::clone(&line), Arc::clone(&shared.limits));
    let acceptor = Acceptor::new(client, Arc::clone(&line), Some(Arc::clone(&streams)));
    let mut connection = builder(&streams, limits, shared.limits.head_bytes)
        .serve_connection(TokioIo::new(socket), acceptor);

    let wakes = WakeCoalescer::new();
    let result = poll_fn(|cx| {
        loop {
            let served = wakes.poll(cx, |cx| {
                line.begin_turn(cx);
                Pin::new(&mut connection).poll(cx)
            });
            if served.is_ready() {
                return served.map(Some);
            }
            // At most twice in the life of a connection.
            match ready!(quiet.poll(cx)) {
                Step::Leave => Pin::new(&mut connection).graceful_shutdown(),
                Step::Cut => return Poll::Ready(None),
            }
        }
    });
    if let Some(Err(error)) = result.await {
        tracing::debug!(%peer, %error, "a connection broke off");
    }
    drop(connection);
    streams.end().await;
}

fn builder(
    streams: &Arc<Streams>,
    limits: Http2Limits,
    head_bytes: usize,
) -> http2::Builder<StreamStarter> {
    let mut builder = http2::Builder::new(streams.starter());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(RESETS_OWN_MAX)
        .max_header_list_size(u32::try_from(head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

/// What a connection should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Take no new request (GOAWAY), and end with the last answer.
    Leave,
    /// End now.
    Cut,
}

/// What happened on a connection so far: requests, and frames of answers that were written.
type Progress = [u64; 2];

/// Tells when a connection has been without a request for too long, has to make room, or the listener ends.
struct Quiet {
    line: Arc<Line>,
    closing: Awaited,
    idle: Duration,
    timer: DeadlineTimer,
    /// At the last arming of the timer.
    seen: Option<Progress>,
    is_leaving: bool,
}

impl Quiet {
    fn new(line: Arc<Line>, drain: &Drain, idle: Duration) -> Self {
        let (closing, timer) = (drain.until_closing(), DeadlineTimer::default());
        Self { line, closing, idle, timer, seen: None, is_leaving: false }
    }

    /// Polled whenever the connection was. After [`Step::Leave`] come no more but [`Step::Cut`].
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if !self.is_leaving && (self.closing.poll(cx).is_ready() || self.line.is_ousted()) {
            return self.leave();
        }
        if self.line.is_answering() {
            if self.seen.take().is_some() {
                self.line.note_busy();
                self.timer.disarm();
            }
            return Poll::Pending;
        }
        // An answer may be whole and its last bytes still wait for the client to make room.
        let progress = [self.line.requests(), self.line.data_frames()];
        if self.seen != Some(progress) {
            self.seen = Some(progress);
            self.timer.arm(if self.is_leaving { LINGER } else { self.idle });
            self.line.note_idle(cx);
        }
        ready!(self.timer.poll_due(cx));
        if self.is_leaving { Poll::Ready(Step::Cut) } else { self.leave() }
    }

    fn leave(&mut self) -> Poll<Step> {
        (self.is_leaving, self.seen) = (true, None);
        Poll::Ready(Step::Leave)
    }
}
