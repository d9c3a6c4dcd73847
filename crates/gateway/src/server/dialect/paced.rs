//! Paced body: a kept object that is handed over piece by piece, as fast as its client reads.
//!
//! A body in one piece moves into the connection's buffer at once, and its request counts as answered however little
//! the client reads. Pieces wait here, beside what they take of the gateway's bounds.
//!
//! **Invariant:** the request has its place until its last piece is handed over.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// Bytes that are handed over at once, of objects and of events.
pub(super) const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A kept object on its way.
pub(super) struct Paced<P> {
    rest: Bytes,
    /// Goes with the body.
    _place: P,
}

impl<P> Paced<P> {
    /// Hands over `object`, and lets go of `place` with it.
    pub(super) const fn new(object: Bytes, place: P) -> Self {
        Self { rest: object, _place: place }
    }
}

impl<P: Unpin> HttpBody for Paced<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        // A copy: a part of the object would keep all of it in the connection's buffer.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(length));
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use overdraft_http::Body;

    use super::*;

    #[tokio::test]
    async fn an_object_is_handed_over_in_pieces_and_holds_its_place_meanwhile() {
        let object: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE_BYTES_MAX + 1).collect();
        let place = Arc::new(());
        let mut body = Body::wrap(Paced::new(object.clone().into(), Arc::clone(&place)));
        assert_eq!(body.size_hint().exact(), u64::try_from(object.len()).ok());
        let mut told = Vec::new();
        while !body.is_end_stream() {
            assert_eq!(Arc::strong_count(&place), 2);
            let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_BYTES_MAX);
            told.extend_from_slice(&piece);
        }
        assert_eq!(told, object);
        assert!(body.frame().await.is_none());
        drop(body);
        assert_eq!(Arc::strong_count(&place), 1);
    }
}
