//! Server-sent event (SSE) splitter: cuts a byte stream into events.
//!
//! Lines end with LF, CRLF or CR; a blank line ends an event. A CR at the end of the buffer may be
//! half a CRLF, so the event waits for the next byte: otherwise the events would depend on how the
//! bytes were chunked. **Invariant:** no more than one event's limit plus one chunk is held,
//! provided the events are taken out after each push.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// Some servers begin a stream with it.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// An event is longer than the splitter's limit; the stream is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event exceeds the limit of {limit} bytes (`limits.event_bytes`)")]
pub struct EventTooLarge {
    /// The limit.
    pub limit: usize,
}

/// How a stream ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// After a whole event.
    Clean,
    /// With a last event that was only waiting for a possible LF.
    Event(Event),
    /// Within an event.
    Cut {
        /// How much of it had come.
        bytes: usize,
    },
}

/// Cuts a stream of bytes into events.
///
/// ```
/// use overdraft_wire::sse::Splitter;
///
/// let mut splitter = Splitter::new(1_024);
/// splitter.push(b"data: hel");
/// assert!(splitter.next_event().unwrap().is_none());
/// splitter.push(b"lo\n\n");
/// let event = splitter.next_event().unwrap().unwrap();
/// assert_eq!(event.data().unwrap(), &b"hello"[..]);
/// ```
#[derive(Clone, Debug)]
pub struct Splitter {
    buffer: BytesMut,
    /// Where the line that is being read began.
    line: usize,
    /// Up to where there is no line end.
    scanned: usize,
    /// Whether nothing has been taken out yet: only then a byte order mark is one.
    first: bool,
    /// Whether an event was too large.
    failed: bool,
    event_bytes_max: usize,
}

/// One event, verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    raw: Bytes,
    /// Where its first line begins: after the byte order mark, if it has one.
    start: usize,
}

impl Splitter {
    /// A splitter that takes events of up to `event_bytes_max` bytes, line ends included.
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            line: 0,
            scanned: 0,
            first: true,
            failed: false,
            event_bytes_max,
        }
    }

    /// Takes in more of the stream. Take the events out before the next call.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Takes out the next whole event.
    ///
    /// # Errors
    /// [`EventTooLarge`], from then on for ever.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLarge> {
        self.within_limit(0)?;
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..]) {
            let end = self.scanned + found;
            let next = match (self.buffer[end], self.buffer.get(end + 1)) {
                (b'\r', None) => {
                    self.scanned = end;
                    return self.within_limit(end + 1).map(|()| None);
                }
                (b'\r', Some(b'\n')) => end + 2,
                _ => end + 1,
            };
            let blank = self.is_blank(end);
            self.line = next;
            self.scanned = next;
            if blank {
                self.within_limit(next)?;
                return Ok(Some(self.take(next)));
            }
        }
        self.scanned = self.buffer.len();
        self.within_limit(self.scanned).map(|()| None)
    }

    /// Tells how the stream ended; the splitter is empty afterwards.
    pub fn finish(&mut self) -> Ending {
        let length = self.buffer.len();
        if length == 0 {
            return Ending::Clean;
        }
        // Only a CR can be left unread, and a blank line that it ends is complete.
        if self.buffer[length - 1] == b'\r' && self.is_blank(length - 1) {
            return Ending::Event(self.take(length));
        }
        self.take(length);
        Ending::Cut { bytes: length }
    }

    /// Whether the line that ends before `end` is empty.
    fn is_blank(&self, end: usize) -> bool {
        let line = &self.buffer[self.line..end];
        line.is_empty() || (self.first && self.line == 0 && line == BOM)
    }

    fn within_limit(&mut self, bytes: usize) -> Result<(), EventTooLarge> {
        self.failed |= bytes > self.event_bytes_max;
        if self.failed {
            return Err(EventTooLarge { limit: self.event_bytes_max });
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Event {
        let raw = self.buffer.split_to(length).freeze();
        let start = if self.first && raw.starts_with(BOM) { BOM.len() } else { 0 };
        self.first = false;
        self.line = 0;
        self.scanned = 0;
        Event { raw, start }
    }
}

impl Event {
    /// Its bytes as they came, the blank line included.
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The same, and nothing else of it.
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// Its data, lines joined by LF; `None` if it has no data field, as a comment has none.
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut values = self.fields().filter(|(name, _)| *name == b"data").map(|(_, data)| data);
        let first = values.next()?;
        let Some(second) = values.next() else { return Some(Cow::Borrowed(first)) };
        let mut joined = [first, b"\n", second].concat();
        for value in values {
            joined.push(b'\n');
            joined.extend_from_slice(value);
        }
        Some(Cow::Owned(joined))
    }

    /// Its `event` field: the last one, as the standard says.
    pub fn name(&self) -> Option<&[u8]> {
        self.fields().filter(|(name, _)| *name == b"event").map(|(_, value)| value).last()
    }

    /// Whether it ends an OpenAI stream.
    pub fn is_done(&self) -> bool {
        self.data().is_some_and(|data| data.trim_ascii() == b"[DONE]")
    }

    /// Field names and values of its lines; comments have an empty name.
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        // An empty piece between CR and LF, or at the end, is no field of any name we look for.
        self.raw[self.start..].split(|&byte| byte == b'\n' || byte == b'\r').map(|line| {
            let Some(colon) = memchr::memchr(b':', line) else { return (line, &[][..]) };
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        })
    }
}
