//! Stream completeness check: which part of a stream may be relayed, and whether it broke off.
//!
//! [`StreamState`] parses the events. Most chunks of a stream that has begun do not concern its
//! end, and a search for five short strings shows that; only a chunk that contains one of them is
//! split into events and parsed. A chunk that ends within an event is the other exception: the
//! partial event is held back until it is complete, so that an error can always follow as an event
//! of its own.
//!
//! Invariant: the output is a sequence of complete events with the bytes of the input. It has
//! nothing after `[DONE]`, no event that reports a failure, and no token counts that only we asked
//! for, but their fingerprint ([`LastEvent`]).

use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use overdraft_wire::ApiError;
use overdraft_wire::answer::{Heard, LongDocument, StreamFault, StreamState};
use overdraft_wire::dialect::Dialect;
use overdraft_wire::sse::{self, Event, Splitter};

use super::last_event::LastEvent;
use super::{ErrorShape, Fault, used};
use crate::dispatch::Used;
use crate::pipeline::usage::Counts;

/// What one chunk amounted to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What may be given out now; empty when nothing may.
    pub(crate) relay: Bytes,
    /// Whether it holds more than comments: keep-alives prove that a server lives, not that it computes.
    pub(crate) has_data: bool,
    /// Why nothing may follow it.
    pub(crate) fault: Option<Fault>,
}

/// What a stream is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// Events with tokens, the last of which is `[DONE]`.
    Tokens,
    /// Events with parts of a recording or a picture; the connection ends where they do.
    Media,
    /// Events of a dialect, the last of which is its own.
    Dialect,
    /// A recording itself, which is whole when its framing ends. Nothing in it is read.
    Bytes { has_ended: bool },
    /// A document that is too long to hold back.
    Document,
}

/// Watches one stream.
#[derive(Debug)]
pub(crate) struct Watch {
    sort: Sort,
    splitter: Splitter,
    /// Bytes of an event that is not whole yet.
    held: usize,
    state: StreamState,
    /// Whether one choice was asked for, so that chunks which say nothing of an end need no reading.
    is_single: bool,
    counts: Counts,
    last: LastEvent,
    shape: ErrorShape,
    /// What has come of the document, where it is one.
    document: Option<Box<LongDocument>>,
    /// Bytes that are still to come, where the worker said how many there are.
    left: Option<u64>,
}

impl Watch {
    /// Watches a stream of `choices` choices whose events have up to `event_bytes` bytes.
    pub(crate) fn new(choices: u32, event_bytes: usize, counts: Counts) -> Self {
        Self {
            sort: Sort::Tokens,
            splitter: Splitter::new(event_bytes),
            held: 0,
            state: StreamState::new(choices),
            is_single: choices <= 1,
            counts,
            last: LastEvent::default(),
            shape: ErrorShape::Chat,
            document: None,
            left: None,
        }
    }

    /// Watches a stream of a worker that speaks `dialect`, asked for by the request of that name.
    pub(crate) fn of_dialect(dialect: Dialect, request: &str, event_bytes: usize) -> Self {
        let media = Self::of_media(event_bytes);
        let shape = ErrorShape::Dialect(dialect, request.into());
        Self { sort: Sort::Dialect, state: StreamState::of_dialect(dialect), shape, ..media }
    }

    /// Watches a stream of events with parts of a recording or a picture, or of what was heard in one.
    pub(crate) fn of_media(event_bytes: usize) -> Self {
        let tokens = Self::new(1, event_bytes, Counts::Relayed);
        // Any event may be the last.
        Self { sort: Sort::Media, state: StreamState::of_media(), is_single: false, ..tokens }
    }

    /// Watches a recording or a picture as it comes.
    pub(crate) fn of_bytes() -> Self {
        Self { sort: Sort::Bytes { has_ended: false }, ..Self::of_media(0) }
    }

    /// Watches the rest of a document, whose beginning has come.
    pub(crate) fn of_document(mut document: Box<LongDocument>, begun: &[u8]) -> Self {
        document.handle(begun);
        Self { sort: Sort::Document, document: Some(document), ..Self::of_media(0) }
    }

    /// The same where so many bytes are to come.
    #[must_use]
    pub(crate) fn with_left(mut self, left: Option<u64>) -> Self {
        self.left = left;
        self.note_left(0);
        self
    }

    /// So many bytes have come.
    fn note_left(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        if self.left == Some(0) {
            self.handle_end();
        }
    }

    /// Bytes that are still to come, where that is known.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.left
    }

    /// Whether events are in it, so that an error can be told as one.
    pub(crate) const fn has_events(&self) -> bool {
        !matches!(self.sort, Sort::Bytes { .. } | Sort::Document)
    }

    /// The worker's answer has ended where its framing says.
    pub(crate) const fn handle_end(&mut self) {
        if let Sort::Bytes { has_ended } = &mut self.sort {
            *has_ended = true;
        }
    }

    /// What an answer lacks that has ended too early.
    pub(crate) const fn missing(&self) -> &'static str {
        match self.sort {
            Sort::Document => "it ended before its last brace",
            Sort::Tokens | Sort::Media | Sort::Dialect | Sort::Bytes { .. } => {
                "it ended without a finish reason"
            }
        }
    }

    /// What a whole stream ends with whose worker has not said `[DONE]`.
    pub(crate) const fn ending(&self) -> Bytes {
        match self.sort {
            Sort::Tokens => Bytes::from_static(sse::DONE),
            Sort::Media | Sort::Dialect | Sort::Bytes { .. } | Sort::Document => Bytes::new(),
        }
    }

    /// The event that tells an error in it.
    pub(crate) fn error_event(&self, error: &ApiError) -> Bytes {
        self.shape.event(error, self.state.next_number())
    }

    /// Whether `[DONE]` has been given out, or what a dialect has for it, or the last of the bytes that were to come:
    /// nobody asks for what stands behind those.
    pub(crate) fn is_done(&self) -> bool {
        self.state.is_done() || self.left == Some(0) && self.is_whole()
    }

    /// Whether all has come that was asked for, said or not.
    pub(crate) fn is_whole(&self) -> bool {
        match self.sort {
            Sort::Tokens | Sort::Media | Sort::Dialect => self.state.is_whole(),
            Sort::Bytes { has_ended } => has_ended,
            Sort::Document => self.document.as_ref().is_some_and(|it| it.is_complete()),
        }
    }

    /// Whether a token has come, or an end: roles and keep-alives open no answer.
    pub(crate) const fn has_begun(&self) -> bool {
        self.state.has_begun()
    }

    /// The last token counts that were told.
    pub(crate) fn used(&self) -> Option<Used> {
        let told = match &self.document {
            Some(document) => document.usage(),
            None => self.state.usage(),
        };
        told.map(used)
    }

    /// Takes in the next chunk.
    pub(crate) fn take(&mut self, chunk: Bytes) -> Seen {
        if self.is_done() {
            return Seen { relay: Bytes::new(), has_data: false, fault: None };
        }
        if let Some(document) = &mut self.document {
            document.handle(&chunk);
        }
        self.note_left(chunk.len() as u64);
        if !self.has_events() {
            return Seen { relay: chunk, has_data: true, fault: None };
        }
        let is_plain = self.is_single && self.has_begun() && !self.last.is_held();
        if is_plain && self.held == 0 && ends_event(&chunk) && !is_telling(&chunk) {
            let has_data = NEEDLES.data.find(&chunk).is_some();
            return Seen { relay: chunk, has_data, fault: None };
        }
        self.read(&chunk)
    }

    /// What is still held: nothing may come that it should wait for.
    pub(crate) fn rest(&mut self) -> Option<Bytes> {
        self.last.take()
    }

    /// The same, once it has waited long enough.
    pub(crate) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        self.last.poll_due(cx)
    }

    /// Cuts a chunk into events and reads each.
    fn read(&mut self, chunk: &Bytes) -> Seen {
        let held_before = self.held;
        self.splitter.push(chunk);
        self.held += chunk.len();
        let mut events: Vec<Bytes> = Vec::new();
        let mut is_gapless = held_before == 0 && !self.last.is_held();
        let (mut fault, mut has_data) = (None, false);
        while fault.is_none() && !self.is_done() {
            match self.splitter.next_event() {
                Ok(Some(event)) => {
                    self.held -= event.raw().len();
                    has_data |= event.data().is_some();
                    let was_whole = self.is_whole();
                    match self.state.handle_event(&event) {
                        Ok(Heard::Usage) if self.counts == Counts::KeptBack => {
                            is_gapless = false;
                            events.extend(self.last.stamped_by(&event));
                        }
                        Ok(_) => {
                            events.extend(self.last.take());
                            let event = self.relayed(event, was_whole);
                            is_gapless &= event.is_some();
                            events.extend(event.map(Event::into_raw));
                        }
                        Err(told) => fault = Some(fault_of(told)),
                    }
                }
                Ok(None) => break,
                Err(error) => fault = Some(Fault::Broken(error.to_string())),
            }
        }
        if fault.is_some() {
            events.extend(self.last.take());
        }
        // Whole events of one chunk, which most chunks are, go out as they came in.
        let given: usize = events.iter().map(Bytes::len).sum();
        let relay = if is_gapless { chunk.slice(..given) } else { joined(&events, given) };
        Seen { relay, has_data, fault }
    }

    /// An event that may go out now; the one that finishes the answer may have to wait.
    fn relayed(&mut self, event: Event, was_whole: bool) -> Option<Event> {
        let finishes = !was_whole && self.is_whole() && !self.is_done();
        if finishes && self.counts == Counts::KeptBack {
            return self.last.hold(event);
        }
        Some(event)
    }
}

/// Whose fault it is that a stream is no answer.
fn fault_of(told: StreamFault) -> Fault {
    match told {
        StreamFault::Failed(why) => Fault::of_worker(why),
        StreamFault::Aborted => Fault::Worker("it aborted the request".to_owned()),
        StreamFault::Cut => Fault::Broken("it ended without a finish reason".to_owned()),
    }
}

/// Events in what goes out.
pub(super) fn count_events(events: &[u8]) -> u32 {
    u32::try_from(NEEDLES.data.find_iter(events).count()).unwrap_or(u32::MAX)
}

fn joined(events: &[Bytes], bytes: usize) -> Bytes {
    let mut joined = BytesMut::with_capacity(bytes);
    for event in events {
        joined.extend_from_slice(event);
    }
    joined.freeze()
}

/// Whether a chunk ends with a blank line. One that ends with CR is left to the splitter: the next
/// chunk may begin with the LF.
fn ends_event(chunk: &[u8]) -> bool {
    chunk.ends_with(b"\n\n") || chunk.ends_with(b"\r\n\r\n")
}

/// Whether a chunk may say something that matters here. It may be wrong about that, for text can
/// hold the same letters, but it never misses anything.
fn is_telling(chunk: &[u8]) -> bool {
    NEEDLES.done.find(chunk).is_some()
        || NEEDLES.named.find(chunk).is_some()
        || NEEDLES.keys.iter().any(|key| {
            let after = |at: usize| &chunk[at + key.needle().len()..];
            key.find_iter(chunk).any(|at| !is_null(after(at)))
        })
}

/// What to look for, prepared once.
struct Needles {
    done: Finder<'static>,
    data: Finder<'static>,
    named: Finder<'static>,
    keys: [Finder<'static>; 3],
}

static NEEDLES: LazyLock<Needles> = LazyLock::new(|| Needles {
    done: Finder::new(b"[DONE]"),
    data: Finder::new(b"data:"),
    named: Finder::new(b"event:"),
    keys: [Finder::new(b"\"finish_reason\""), Finder::new(b"\"usage\""), Finder::new(b"\"error\"")],
});

/// Whether what follows a key is `: null`.
fn is_null(after: &[u8]) -> bool {
    let after = after.trim_ascii_start();
    let value = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"null"))
}
