//! Buffered response: collects a non-streamed answer and checks that it is complete.
//!
//! Up to a bound the answer is buffered before the client gets its head, so that one that breaks
//! off can be retried at another worker. A longer answer is relayed as it comes; if it breaks off,
//! so does the client's.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use overdraft_wire::answer::{Completeness, Document, DocumentFault};
use overdraft_wire::dialect::Dialect;
use overdraft_wire::names_out_of_memory;

use super::{Fault, used};
use crate::dispatch::Used;
use crate::upstream::{AnswerBody, AnswerError};

/// A whole answer, or the beginning of one that is too long to hold back.
#[derive(Debug)]
pub(crate) enum Whole {
    /// All of it.
    Collected(Bytes),
    /// The beginning, and the rest as it comes.
    Long(Box<Long>),
}

/// Collects an answer of up to `bytes_max` bytes.
pub(crate) async fn collect(mut answer: AnswerBody, bytes_max: usize) -> Result<Whole, Fault> {
    let length = answer.length();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let data = match poll_fn(|cx| answer.poll_data(cx)).await {
            None => break,
            Some(Err(error)) => return Err(Fault::Broken(error.to_string())),
            Some(Ok(data)) => data,
        };
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
        if bytes_max < first.len() + rest.len() {
            let begun = if rest.is_empty() { first } else { rest.freeze() };
            return Ok(Whole::Long(Box::new(Long {
                begun,
                answer,
                left: length,
                completeness: Some(Completeness::default()),
            })));
        }
    }
    Ok(Whole::Collected(if rest.is_empty() { first } else { rest.freeze() }))
}

/// Collects an answer that is no document: it is whole when its bytes are.
///
/// # Errors
/// [`Fault::Broken`] where it breaks off within `bytes_max` bytes.
pub(crate) async fn opaque(
    answer: AnswerBody,
    bytes_max: usize,
) -> Result<overdraft_http::Body, Fault> {
    Ok(match collect(answer, bytes_max).await? {
        Whole::Collected(bytes) => overdraft_http::Body::full(bytes),
        Whole::Long(mut long) => {
            long.completeness = None;
            overdraft_http::Body::wrap(long)
        }
    })
}

/// What a whole answer with status 200 says of itself; `generates` says whether it was to have choices.
///
/// # Errors
/// [`Fault::Broken`] for half of one, [`Fault::Worker`] or [`Fault::OutOfMemory`] for one that tells a failure, was
/// aborted, or has no choice though it was to have some.
pub(crate) fn read(answer: &[u8], generates: bool) -> Result<Option<Used>, Fault> {
    judged(Document::read(answer, generates), answer)
}

/// The same of an answer in a dialect of the worker's own.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_dialect(answer: &[u8], dialect: Dialect) -> Result<Option<Used>, Fault> {
    judged(Document::read_dialect(answer, dialect), answer)
}

fn judged(read: Result<Document, DocumentFault>, answer: &[u8]) -> Result<Option<Used>, Fault> {
    match read {
        Ok(document) => Ok(document.usage.map(used)),
        Err(DocumentFault::Cut(why)) => Err(Fault::Broken(why)),
        Err(DocumentFault::Failed(why)) => Err(Fault::of_worker(why)),
        Err(DocumentFault::Aborted) => Err(Fault::Worker("it aborted the request".to_owned())),
        Err(DocumentFault::Empty) if names_out_of_memory(answer) => Err(Fault::OutOfMemory),
        Err(DocumentFault::Empty) => {
            Err(Fault::Worker("it gave no choice in its answer".to_owned()))
        }
    }
}

/// An answer that is passed on as it comes.
#[derive(Debug)]
pub(crate) struct Long {
    begun: Bytes,
    answer: AnswerBody,
    /// Bytes still to be given out, if the worker said how many there are.
    left: Option<u64>,
    /// Where it is a document, whose last brace must come.
    completeness: Option<Completeness>,
}

/// Why a long answer breaks off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LongFault {
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("the answer ended before its last brace")]
    Cut,
}

impl Body for Long {
    type Data = Bytes;
    type Error = LongFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LongFault>>> {
        let this = self.get_mut();
        let data = if this.begun.is_empty() {
            std::task::ready!(this.answer.poll_data(cx))
        } else {
            Some(Ok(std::mem::take(&mut this.begun)))
        };
        match data {
            Some(Ok(data)) => {
                if let Some(completeness) = &mut this.completeness {
                    completeness.handle(&data);
                }
                if let Some(left) = &mut this.left {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            None if this.completeness.as_ref().is_some_and(|it| !it.is_complete()) => {
                Poll::Ready(Some(Err(LongFault::Cut)))
            }
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
