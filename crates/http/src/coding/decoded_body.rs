//! Decoded request bodies: with a bound on what comes out, however little goes in.
//!
//! A few kilobytes may decode to gigabytes. What comes out is therefore bounded like any other body and counts
//! towards the memory of all bodies. It may not be too many times what went in. It is made piece by piece, so that
//! no thread is busy with one of them for long.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::Bytes;
use http_body::Body as HttpBody;
use tokio::io::{AsyncRead, ReadBuf};

use super::Coding;
use super::frame_reader::FrameReader;
use crate::body::BoxError;
use crate::body_budget::BodyLease;
use crate::body_error::BodyError;

/// Bytes of one piece.
const PIECE_BYTES: usize = 32 * 1024;

/// Bytes that are decoded before other requests get a turn; about a millisecond's work.
const TURN_BYTES: usize = 256 * 1024;

/// What a body may be decoded to at least, whatever its own size.
const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// How many times its own size a larger one may be decoded to. Text with a hundred equal messages in it stays below.
const RATIO_MAX: u64 = 200;

/// The largest window of zstd: eight mebibytes, which everybody should take (RFC 8878, section 3.1.1.1.2).
const WINDOW_LOG_MAX: u32 = 23;

/// A body that is decoded while it is read.
pub(crate) struct DecodedBody<B> {
    decoder: Decoder<B>,
    coding: Coding,
    piece: Box<[u8]>,
    decoded: u64,
    limit: usize,
    lease: Arc<BodyLease>,
    /// Bytes decoded since others had a turn.
    turn: usize,
    has_ended: bool,
}

enum Decoder<B> {
    Gzip(GzipDecoder<FrameReader<B>>),
    Zstd(ZstdDecoder<FrameReader<B>>),
}

impl<B> DecodedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Decodes `body` to at most `limit` bytes, which `lease` counts.
    pub(crate) fn new(body: B, coding: Coding, limit: usize, lease: Arc<BodyLease>) -> Self {
        let reader = FrameReader::new(body);
        let decoder = match coding {
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(reader);
                // A file of gzip may have several members (RFC 1952, section 2.2).
                decoder.multiple_members(true);
                Decoder::Gzip(decoder)
            }
            Coding::Zstd => {
                let bounds = [DParameter::window_log_max(WINDOW_LOG_MAX)];
                Decoder::Zstd(ZstdDecoder::with_params(reader, &bounds))
            }
        };
        let piece = vec![0; PIECE_BYTES].into_boxed_slice();
        let (decoded, turn, has_ended) = (0, 0, false);
        Self { decoder, coding, piece, decoded, limit, lease, turn, has_ended }
    }

    /// The next piece; `None` at the end.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        if TURN_BYTES <= self.turn {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut piece = ReadBuf::new(&mut self.piece);
        let read = match &mut self.decoder {
            Decoder::Gzip(decoder) => Pin::new(decoder).poll_read(cx, &mut piece),
            Decoder::Zstd(decoder) => Pin::new(decoder).poll_read(cx, &mut piece),
        };
        let length = piece.filled().len();
        if let Err(error) = ready!(read) {
            self.has_ended = true;
            return Poll::Ready(Some(Err(self.fault(error))));
        }
        if length == 0 {
            self.has_ended = true;
            return Poll::Ready(None);
        }
        self.turn += length;
        self.decoded += length as u64;
        Poll::Ready(Some(self.counted(length).inspect_err(|_| self.has_ended = true)))
    }

    /// The piece, if it may be as large.
    fn counted(&self, length: usize) -> Result<Bytes, BodyError> {
        if (self.limit as u64) < self.decoded {
            return Err(BodyError::TooLarge { limit: self.limit });
        }
        let own = self.reader().read().saturating_mul(RATIO_MAX);
        if RATIO_FREE_BYTES < self.decoded && own < self.decoded {
            return Err(BodyError::TooDense { ratio: RATIO_MAX });
        }
        if !self.lease.grow(length) {
            return Err(BodyError::NoRoom);
        }
        Ok(Bytes::copy_from_slice(&self.piece[..length]))
    }

    /// What is wrong with the body itself, or with how it is encoded.
    fn fault(&self, error: io::Error) -> BodyError {
        match error.downcast::<BodyError>() {
            Ok(of_body) => of_body,
            Err(error) => BodyError::Undecodable { coding: self.coding.name(), error },
        }
    }
}

impl<B: fmt::Debug> fmt::Debug for DecodedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DecodedBody");
        shown.field("coding", &self.coding).field("body", self.reader().body());
        shown.finish_non_exhaustive()
    }
}

impl<B> DecodedBody<B> {
    fn reader(&self) -> &FrameReader<B> {
        match &self.decoder {
            Decoder::Gzip(decoder) => decoder.get_ref(),
            Decoder::Zstd(decoder) => decoder.get_ref(),
        }
    }
}
