//! Multiplexed socket: enforces head timeout, write timeout and flood bounds below hyper, for HTTP/2.
//!
//! hyper reads and writes; this layer watches what and how long that takes. Idle time and streams whose client reads
//! nothing are watched above it: they cannot be told from the bytes of the connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::flood_meter::FloodMeter;
use super::frame_scanner::{FrameKind, FrameScanner};
use crate::deadline_timer::DeadlineTimer;
use crate::limits::Limits;
use crate::line::Line;
use crate::shared::ListenerStream;

/// A socket with deadlines, on which frames are counted.
#[derive(Debug)]
pub(super) struct MultiplexedSocket {
    stream: ListenerStream,
    /// What was read before it was known to be HTTP/2.
    begun: Bytes,
    line: Arc<Line>,
    limits: Arc<Limits>,
    inbound: FloodMeter,
    outbound: FrameScanner,
    /// While something has begun that the client has yet to end.
    head: DeadlineTimer,
    /// While the client takes nothing: until it does.
    stall: DeadlineTimer,
}

impl MultiplexedSocket {
    pub(super) fn new(
        stream: ListenerStream,
        begun: Bytes,
        line: Arc<Line>,
        limits: Arc<Limits>,
    ) -> Self {
        let mut head = DeadlineTimer::default();
        head.arm(limits.head);
        Self {
            stream,
            begun,
            line,
            limits,
            inbound: FloodMeter::new(Instant::now()),
            outbound: FrameScanner::default(),
            head,
            stall: DeadlineTimer::default(),
        }
    }

    /// Bytes came.
    fn note_read(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(flood) = self.inbound.count(bytes, Instant::now()) {
            tracing::info!("a connection is closed: {flood}");
            return Err(io::Error::other(flood));
        }
        if !self.inbound.is_waiting() {
            self.head.disarm();
        } else if !self.head.is_armed() {
            self.head.arm(self.limits.head);
        }
        Ok(())
    }

    /// Bytes went.
    fn note_written(&mut self, bytes: &[u8]) {
        let mut frames = 0;
        self.outbound.scan(bytes, |head| frames += u64::from(head.kind == FrameKind::Data));
        if frames > 0 {
            self.inbound.note_answered(frames);
            self.line.note_data_frames(frames);
        }
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
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for MultiplexedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        if this.begun.is_empty() {
            let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
            if read.is_pending() {
                ready!(this.head.poll_due(cx));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            ready!(read)?;
        } else {
            let taken = this.begun.len().min(buffer.remaining());
            buffer.put_slice(&this.begun[..taken]);
            this.begun.advance(taken);
        }
        Poll::Ready(this.note_read(&buffer.filled()[before..]))
    }
}

impl AsyncWrite for MultiplexedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &wrote {
            this.note_written(&bytes[..*written]);
        }
        this.watch_write(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(written)) = &wrote {
            let mut left = *written;
            for slice in slices {
                let own = slice.len().min(left);
                this.note_written(&slice[..own]);
                left -= own;
            }
        }
        this.watch_write(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.line.note_flush();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
