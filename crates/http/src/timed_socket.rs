//! Timed socket: enforces header, idle and write timeouts below hyper.
//!
//! hyper reads and writes; this layer watches how long that takes. A client that is slow with a
//! head, idle for too long or not reading its answer is cut off here. hyper's own bare replies to
//! unparsable heads are held back, so that the client can be sent an error object instead; they are
//! known by what every answer of ours carries and they lack: a request id.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use overdraft_wire::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::deadline_timer::DeadlineTimer;
use crate::limits::Limits;
use crate::line::Line;
use crate::shared::ListenerStream;

/// A socket with deadlines.
#[derive(Debug)]
pub(crate) struct TimedSocket {
    stream: ListenerStream,
    line: Arc<Line>,
    limits: Arc<Limits>,
    /// While no request is being answered: until the head is complete, or one begins.
    quiet: DeadlineTimer,
    /// While the client takes nothing: until it does.
    stall: DeadlineTimer,
    waiting: Waiting,
    /// Requests there had been when the wait began.
    requests: u64,
    refusal: Option<ErrorKind>,
    read: ReadSide,
}

/// What the connection waits for between two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Nothing yet.
    No,
    /// The first byte of a head.
    ForHead,
    /// The last byte of a head.
    InHead,
}

/// Whether the client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadSide {
    Open,
    Ended,
}

impl TimedSocket {
    pub(crate) fn new(stream: ListenerStream, line: Arc<Line>, limits: Arc<Limits>) -> Self {
        Self {
            stream,
            line,
            limits,
            quiet: DeadlineTimer::default(),
            stall: DeadlineTimer::default(),
            waiting: Waiting::No,
            requests: 0,
            refusal: None,
            read: ReadSide::Open,
        }
    }

    /// What is left when hyper is done: the socket if the client may still be sending, and the
    /// refusal that the client has yet to be told.
    pub(crate) fn into_rest(self) -> (Option<ListenerStream>, Option<ErrorKind>) {
        let sending = self.read == ReadSide::Open && self.line.has_unread();
        let open = sending || self.refusal.is_some();
        (open.then_some(self.stream), self.refusal)
    }

    /// The socket, for another protocol on it.
    pub(crate) fn into_stream(self) -> ListenerStream {
        self.stream
    }

    /// Nothing came. Ready if nothing more will be waited for: the read side has then ended.
    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.line.is_answering() {
            return Poll::Pending;
        }
        let requests = self.line.requests();
        if self.waiting == Waiting::No || self.requests != requests {
            self.waiting = Waiting::ForHead;
            self.requests = requests;
            self.quiet.arm(self.limits.idle);
            self.line.note_idle(cx);
        }
        if self.waiting == Waiting::ForHead && self.line.is_ousted() {
            self.read = ReadSide::Ended;
            return Poll::Ready(());
        }
        if self.waiting == Waiting::InHead || !self.line.is_closing() {
            ready!(self.quiet.poll_due(cx));
        }
        if self.waiting == Waiting::InHead {
            self.refusal = Some(ErrorKind::RequestTimeout);
        }
        self.read = ReadSide::Ended;
        Poll::Ready(())
    }

    /// Bytes came.
    fn note_read(&mut self) {
        let requests = self.line.requests();
        let goes_on = self.waiting == Waiting::InHead && self.requests == requests;
        if !self.line.is_answering() && !goes_on {
            self.waiting = Waiting::InHead;
            self.requests = requests;
            self.quiet.arm(self.limits.head);
            self.line.note_busy();
        }
    }

    /// What hyper answers by itself is swallowed and remembered.
    fn holds_back(&mut self, bytes: &[u8]) -> bool {
        let refusal = own_reply(bytes);
        if refusal.is_some() {
            self.refusal = refusal;
        }
        refusal.is_some()
    }

    fn watch_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.stall.poll_stalled(&wrote, self.limits.write_stall, cx).is_pending() {
            return wrote;
        }
        self.line.note_stall();
        self.read = ReadSide::Ended;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The status of a reply that hyper made by itself, as an error of ours.
fn own_reply(bytes: &[u8]) -> Option<ErrorKind> {
    let status = bytes.strip_prefix(b"HTTP/1.1 4")?.get(..2)?;
    let ours = bytes.windows(REQUEST_ID.len()).any(|window| window == REQUEST_ID);
    if ours || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    match status {
        b"00" => Some(ErrorKind::InvalidRequest),
        b"14" | b"31" => Some(ErrorKind::HeadTooLarge),
        _ => None,
    }
}

const REQUEST_ID: &[u8] = b"\r\nx-request-id: ";

impl AsyncRead for TimedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.read == ReadSide::Ended {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        match read {
            Poll::Pending => this.poll_quiet(cx).map(Ok),
            Poll::Ready(Ok(())) if buffer.filled().len() > before => {
                this.note_read();
                Poll::Ready(Ok(()))
            }
            ended @ Poll::Ready(_) => {
                this.read = ReadSide::Ended;
                ended
            }
        }
    }
}

impl AsyncWrite for TimedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.holds_back(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch_write(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if let [only] = slices
            && this.holds_back(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.watch_write(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.line.note_flush();
            // The end of an answer: hyper does not ask for the next head again if it found none
            // while it was answering.
            if self.read == ReadSide::Open && self.poll_quiet(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The refusal still has to go out; the connection's task does both.
        if self.refusal.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
