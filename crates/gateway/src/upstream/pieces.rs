//! Body in pieces, sent without a copy: a prelude and the client's unchanged body, or a form with parts changed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Pieces that are sent one after the other under one length. Most bodies have one or two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    rest: Bytes,
    /// What follows these, the last first.
    more: Vec<Bytes>,
}

impl From<Bytes> for Pieces {
    fn from(whole: Bytes) -> Self {
        Self { first: whole, ..Self::default() }
    }
}

impl From<[Bytes; 2]> for Pieces {
    fn from([first, rest]: [Bytes; 2]) -> Self {
        // An empty first piece would end the body before its rest.
        let (first, rest) = if first.is_empty() { (rest, first) } else { (first, rest) };
        Self { first, rest, more: Vec::new() }
    }
}

impl From<&[Bytes]> for Pieces {
    fn from(all: &[Bytes]) -> Self {
        let mut more: Vec<Bytes> =
            all.iter().rev().filter(|piece| !piece.is_empty()).cloned().collect();
        let mut next = || more.pop().unwrap_or_default();
        Self { first: next(), rest: next(), more }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let more = self.more.pop().unwrap_or_default();
        let rest = std::mem::replace(&mut self.rest, more);
        let piece = std::mem::replace(&mut self.first, rest);
        // The first is empty only where nothing is left.
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let pieces = [&self.first, &self.rest].into_iter().chain(&self.more);
        let bytes: usize = pieces.map(Bytes::len).sum();
        SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn pieces_come_in_order_and_tell_their_length() {
        let [one, other] = [Bytes::from_static(b"{\"a\":1,"), Bytes::from_static(b"\"b\":2}")];
        let both = Pieces::from([one.clone(), other.clone()]);
        assert_eq!(both.size_hint().exact(), Some(13));
        assert_eq!(both.collect().await.unwrap().to_bytes(), [one.clone(), other].concat());
        let whole = Pieces::from(one.clone());
        assert_eq!((whole.size_hint().exact(), whole.is_end_stream()), (Some(7), false));
        assert_eq!(whole.collect().await.unwrap().to_bytes(), one);
        let late = Pieces::from([Bytes::new(), one.clone()]);
        assert_eq!(late.collect().await.unwrap().to_bytes(), one);
        let parts =
            ["", "ab", "", "c", "d", "", "ef"].map(|part| Bytes::from_static(part.as_bytes()));
        let many = Pieces::from(parts.as_slice());
        assert_eq!((many.size_hint().exact(), many.is_end_stream()), (Some(6), false));
        assert_eq!(many.collect().await.unwrap().to_bytes(), "abcdef");
        let nothing = Pieces::default();
        assert_eq!((nothing.size_hint().exact(), nothing.is_end_stream()), (Some(0), true));
        assert!(nothing.collect().await.unwrap().to_bytes().is_empty());
    }
}
