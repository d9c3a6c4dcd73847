//! Chunk template: reads the next chunk of a stream by what the last one looked like.
//!
//! Nearly all chunks of a stream differ in a text and some ids. One that was read by its grammar gives a
//! template; the next that matches it byte for byte, but for these, is read without a parser. **Invariant:** what
//! a template reads and writes is what [`Piece`](super::Piece) and [`without`](super::without) would.

use std::borrow::Cow;

use memchr::memmem;

use super::piece::{Piece, Role};

/// Ids of one chunk that a template reads at most.
const IDS_MAX: usize = 64;

/// What stands before the ids of a chunk.
const IDS: &[u8] = b",\"token_ids\":[";

/// What the chunks of a stream have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Up to the quote that the text begins with.
    before: Vec<u8>,
    /// From the quote that ends it to the ids, or to the end.
    between: Vec<u8>,
    /// Whether ids follow, and what follows them.
    after: Option<Vec<u8>>,
    /// How much of `between` stands before the member with the ids.
    kept: usize,
}

/// A chunk that a template has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched<'a> {
    /// Bytes of the event.
    pub length: usize,
    /// Text for the reader.
    pub text: Cow<'a, str>,
    /// The text as it was written.
    written: &'a [u8],
}

impl Template {
    /// The template of an event that says a text and perhaps ids; nothing where it says anything else.
    pub fn of(event: &[u8], piece: &Piece<'_>) -> Option<Self> {
        let is_plain = piece.is_token()
            && piece.role == Role::Untold
            && !piece.is_strange
            && piece.reasoning.is_empty()
            && piece.calls.is_empty()
            && piece.finish.is_none()
            && piece.usage.is_none()
            && piece.logprobs.is_none()
            && piece.prompt_ids.is_none();
        if !is_plain || !event.starts_with(b"data: {") || !event.ends_with(b"}\n\n") {
            return None;
        }
        let name = if memmem::find(event, b"\"delta\":{").is_some() {
            &b"\"delta\":{\"content\":\""[..]
        } else {
            &b"\"text\":\""[..]
        };
        let begin = memmem::find(event, name)? + name.len();
        let end = begin + text_length(&event[begin..])?;
        let rest = &event[end..];
        let Some(ids) = &piece.ids else {
            return Some(Self {
                before: event[..begin].to_vec(),
                between: rest.to_vec(),
                after: None,
                kept: rest.len(),
            });
        };
        let kept = memmem::find(rest, IDS)?;
        let list = kept + IDS.len();
        let closing = list + memchr::memchr(b']', &rest[list..])?;
        (numbers(&rest[list..closing]).as_ref() == Some(ids)).then(|| Self {
            before: event[..begin].to_vec(),
            between: rest[..list].to_vec(),
            after: Some(rest[closing + 1..].to_vec()),
            kept,
        })
    }

    /// Whether its chunks have ids.
    pub const fn has_ids(&self) -> bool {
        self.after.is_some()
    }

    /// Reads the event that `bytes` begin with, and puts its ids behind `ids`; nothing where it does not match.
    pub fn read<'a>(&self, bytes: &'a [u8], ids: &mut Vec<u32>) -> Option<Matched<'a>> {
        let rest = bytes.strip_prefix(self.before.as_slice())?;
        let length = text_length(rest)?;
        let (written, rest) = rest.split_at(length);
        let mut rest = rest.strip_prefix(self.between.as_slice())?;
        let text = text(written)?;
        let mut found = Vec::new();
        if let Some(after) = &self.after {
            let closing = memchr::memchr(b']', rest)?;
            found = numbers(&rest[..closing])?;
            rest = rest[closing + 1..].strip_prefix(after.as_slice())?;
        }
        ids.append(&mut found);
        Some(Matched { length: bytes.len() - rest.len(), text, written })
    }

    /// Writes an event that was read without its ids.
    pub fn write(&self, matched: &Matched<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.before);
        out.extend_from_slice(matched.written);
        out.extend_from_slice(&self.between[..self.kept]);
        out.extend_from_slice(self.after.as_deref().unwrap_or_default());
    }
}

/// Bytes up to the quote that ends a text.
fn text_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// A text without its escapes.
fn text(written: &[u8]) -> Option<Cow<'_, str>> {
    let plain = std::str::from_utf8(written).ok()?;
    if plain.bytes().any(|byte| byte == b'\\' || byte < b' ') {
        return serde_json::from_str::<String>(&format!("\"{plain}\"")).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(plain))
}

/// A list of ids without white space.
fn numbers(list: &[u8]) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    if list.is_empty() {
        return Some(ids);
    }
    for number in list.split(|byte| *byte == b',') {
        let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        if !is_number || IDS_MAX <= ids.len() || (number.len() > 1 && number[0] == b'0') {
            return None;
        }
        ids.push(std::str::from_utf8(number).ok()?.parse().ok()?);
    }
    Some(ids)
}
