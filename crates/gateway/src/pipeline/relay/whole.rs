//! Buffered response: collects a non-streamed answer and checks that it is complete.
//!
//! Up to a bound the answer is buffered before the client gets its head, so that one that breaks
//! off can be retried at another worker. A longer answer is relayed as streams are, with the same limits of time and
//! the same books; if it breaks off, so does the client's.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use overdraft_wire::answer::{Document, DocumentFault, LongDocument};
use overdraft_wire::dialect::Dialect;
use overdraft_wire::names_out_of_memory;

use super::{Fault, Opened, Watch, used};
use crate::dispatch::Used;
use crate::upstream::AnswerBody;

/// A whole answer, or the beginning of one that is too long to hold back.
#[derive(Debug)]
pub(crate) enum Whole {
    /// All of it.
    Collected(Bytes),
    /// The beginning, and the rest as it comes.
    Long(Box<Opened>),
}

/// Collects a document of up to `bytes_max` bytes, in that dialect if its worker speaks one.
///
/// # Errors
/// [`Fault::Broken`] where it breaks off within `bytes_max` bytes.
pub(crate) async fn collect(
    answer: AnswerBody,
    bytes_max: usize,
    dialect: Option<Dialect>,
) -> Result<Whole, Fault> {
    let watch = |begun: &[u8]| Watch::of_document(Box::new(LongDocument::new(dialect)), begun);
    collect_watched(answer, bytes_max, watch).await
}

/// Collects an answer that is no document: it is whole when its bytes are.
///
/// # Errors
/// [`Fault::Broken`] where it breaks off within `bytes_max` bytes.
pub(crate) async fn opaque(answer: AnswerBody, bytes_max: usize) -> Result<Whole, Fault> {
    collect_watched(answer, bytes_max, |_| Watch::of_bytes()).await
}

async fn collect_watched(
    mut answer: AnswerBody,
    bytes_max: usize,
    watch: impl FnOnce(&[u8]) -> Watch,
) -> Result<Whole, Fault> {
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
            let first = if rest.is_empty() { first } else { rest.freeze() };
            let left = length.map(|length| length.saturating_sub(first.len() as u64));
            let watch = watch(&first).with_left(left);
            return Ok(Whole::Long(Box::new(Opened { answer, watch, first })));
        }
    }
    Ok(Whole::Collected(if rest.is_empty() { first } else { rest.freeze() }))
}

/// The rest of a long answer, behind its beginning, where it has up to `bytes_max` bytes.
///
/// # Errors
/// [`Fault::Broken`] where it breaks off, or is longer.
pub(crate) async fn rest(opened: Opened, bytes_max: usize) -> Result<Bytes, Fault> {
    let Opened { mut answer, mut watch, first } = opened;
    let mut whole = BytesMut::from(&first[..]);
    while let Some(data) = poll_fn(|cx| answer.poll_data(cx)).await {
        let seen = watch.take(data.map_err(|error| Fault::Broken(error.to_string()))?);
        whole.extend_from_slice(&seen.relay);
        if bytes_max < whole.len() {
            return Err(Fault::Broken(format!("it is longer than {bytes_max} bytes")));
        }
    }
    watch.handle_end();
    if watch.is_whole() {
        Ok(whole.freeze())
    } else {
        Err(Fault::Broken("it ended before its last brace".to_owned()))
    }
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
