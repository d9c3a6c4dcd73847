//! A whole answer: is it whole?
//!
//! Up to a bound it is collected before the client hears of it, so that one that breaks off can be
//! asked for elsewhere. What is longer is passed on as it comes and, if it breaks off, breaks off.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use memchr::memmem::{Finder, FinderRev};
use overdraft_wire::names_out_of_memory;

use super::Fault;
use super::watch::Usage;
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
            return Ok(Whole::Long(Box::new(Long { begun, answer, left: length })));
        }
    }
    Ok(Whole::Collected(if rest.is_empty() { first } else { rest.freeze() }))
}

/// What a whole answer says of itself.
///
/// # Errors
/// [`Fault::Worker`] for one that was aborted rather than finished.
pub(crate) fn judge(answer: &[u8]) -> Result<Option<Used>, Fault> {
    let finish = &NEEDLES.finish;
    let aborted = finish.find_iter(answer).any(|at| {
        let after = &answer[at + finish.needle().len()..];
        value_of(after).is_some_and(|value| value.starts_with(b"\"abort\""))
    });
    if aborted {
        return Err(Fault::Worker("it aborted the request".to_owned()));
    }
    Ok(used(answer))
}

/// The token counts, which stand near the end.
fn used(answer: &[u8]) -> Option<Used> {
    let usage = &NEEDLES.usage;
    let at = usage.rfind(answer)?;
    let value = value_of(&answer[at + usage.needle().len()..])?;
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<Usage>();
    values.next()?.ok().map(Usage::into_used)
}

/// An answer that was to have text in it has at least one choice.
///
/// # Errors
/// [`Fault::Worker`] or [`Fault::OutOfMemory`] for one that has none: nothing was computed for it.
pub(crate) fn expect_choice(answer: &[u8]) -> Result<(), Fault> {
    let choices = &NEEDLES.choices;
    // In text the key's quotes would be escaped.
    let at = choices.find(answer);
    let value = at.and_then(|at| value_of(&answer[at + choices.needle().len()..]));
    let within = value.and_then(|value| value.strip_prefix(b"["));
    match within.map(<[u8]>::trim_ascii_start) {
        Some(within) if !within.starts_with(b"]") => Ok(()),
        _ if names_out_of_memory(answer) => Err(Fault::OutOfMemory),
        _ => Err(Fault::Worker("it gave no choice in its answer".to_owned())),
    }
}

/// What to look for, prepared once: preparing takes longer than looking through a short answer.
struct Needles {
    choices: Finder<'static>,
    finish: Finder<'static>,
    usage: FinderRev<'static>,
}

static NEEDLES: LazyLock<Needles> = LazyLock::new(|| Needles {
    choices: Finder::new(b"\"choices\""),
    finish: Finder::new(b"\"finish_reason\""),
    usage: FinderRev::new(b"\"usage\""),
});

/// What follows a key.
fn value_of(after: &[u8]) -> Option<&[u8]> {
    after.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start)
}

/// An answer that is passed on as it comes.
#[derive(Debug)]
pub(crate) struct Long {
    begun: Bytes,
    answer: AnswerBody,
    /// Bytes still to be given out, if the worker said how many there are.
    left: Option<u64>,
}

impl Body for Long {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        let data = if this.begun.is_empty() {
            std::task::ready!(this.answer.poll_data(cx))
        } else {
            Some(Ok(std::mem::take(&mut this.begun)))
        };
        if let (Some(Ok(data)), Some(left)) = (&data, &mut this.left) {
            *left = left.saturating_sub(data.len() as u64);
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
