//! Frame reader: a body as bytes that a codec reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::Body as HttpBody;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

use crate::body::BoxError;

/// The bytes of a body, one frame after the other.
#[derive(Debug)]
pub(super) struct FrameReader<B> {
    body: B,
    frame: Bytes,
    read: u64,
}

impl<B> FrameReader<B> {
    pub(super) const fn new(body: B) -> Self {
        Self { body, frame: Bytes::new(), read: 0 }
    }

    /// Bytes of the body that have come so far.
    pub(super) const fn read(&self) -> u64 {
        self.read
    }

    pub(super) const fn body(&self) -> &B {
        &self.body
    }
}

impl<B> AsyncBufRead for FrameReader<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.frame.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => break,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        this.read += data.len() as u64;
                        this.frame = data;
                    }
                }
            }
        }
        Poll::Ready(Ok(&this.frame))
    }

    fn consume(self: Pin<&mut Self>, bytes: usize) {
        self.get_mut().frame.advance(bytes);
    }
}

impl<B> AsyncRead for FrameReader<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let frame = ready!(self.as_mut().poll_fill_buf(cx))?;
        let taken = frame.len().min(into.remaining());
        into.put_slice(&frame[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}
