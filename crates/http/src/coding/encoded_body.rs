//! Encoded answers: a whole answer that is encoded while it leaves.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::Level;
use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::io::{AsyncRead, ReadBuf};

use super::Coding;
use super::frame_reader::FrameReader;
use crate::body::{Body, BoxError};

/// Bytes of one piece.
const PIECE_BYTES: usize = 16 * 1024;

/// The body, encoded; it breaks off where the body does.
pub fn encode(body: Body, coding: Coding) -> Body {
    let reader = FrameReader::new(body);
    let encoder: Encoder = match coding {
        // Answers are short and a client waits for them.
        Coding::Gzip => Box::pin(GzipEncoder::with_quality(reader, Level::Fastest)),
        Coding::Zstd => Box::pin(ZstdEncoder::with_quality(reader, Level::Fastest)),
    };
    Body::wrap(EncodedBody { encoder, piece: vec![0; PIECE_BYTES].into_boxed_slice() })
}

type Encoder = Pin<Box<dyn AsyncRead + Send>>;

struct EncodedBody {
    encoder: Encoder,
    piece: Box<[u8]>,
}

impl HttpBody for EncodedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut piece = ReadBuf::new(&mut this.piece);
        let read: io::Result<()> = ready!(this.encoder.as_mut().poll_read(cx, &mut piece));
        Poll::Ready(match read {
            Err(error) => Some(Err(error.into())),
            Ok(()) if piece.filled().is_empty() => None,
            Ok(()) => Some(Ok(Frame::data(Bytes::copy_from_slice(piece.filled())))),
        })
    }
}
