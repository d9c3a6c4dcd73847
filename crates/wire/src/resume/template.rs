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

/// What the chunks of a stream have in common: one piece of memory, for it is cold whenever a chunk comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Up to the quote that the text begins with, from the quote that ends it, and what follows the ids.
    bytes: Box<[u8]>,
    /// Where the second part begins.
    text: usize,
    /// Where the member with the ids begins, and where its list does, which the third part follows.
    ids: Option<(usize, usize)>,
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
            let bytes = [&event[..begin], rest].concat().into();
            return Some(Self { bytes, text: begin, ids: None });
        };
        let member = memmem::find(rest, IDS)?;
        let list = member + IDS.len();
        let closing = list + memchr::memchr(b']', &rest[list..])?;
        let mut found = Vec::new();
        read_numbers(&rest[list..closing], &mut found)?;
        (found == *ids).then(|| Self {
            bytes: [&event[..begin], &rest[..list], &rest[closing + 1..]].concat().into(),
            text: begin,
            ids: Some((begin + member, begin + list)),
        })
    }

    /// Whether its chunks have ids.
    pub const fn has_ids(&self) -> bool {
        self.ids.is_some()
    }

    /// Reads the event that `bytes` begin with, and puts its ids behind `ids`; nothing where it does not match.
    pub fn read<'a>(&self, bytes: &'a [u8], ids: &mut Vec<u32>) -> Option<Matched<'a>> {
        let (before, after) = self.bytes.split_at(self.text);
        let rest = bytes.strip_prefix(before)?;
        let length = text_length(rest)?;
        let (written, rest) = rest.split_at(length);
        let text = text(written)?;
        let rest = match self.ids {
            None => rest.strip_prefix(after)?,
            Some((_, list)) => {
                let (between, after) = after.split_at(list - self.text);
                let rest = rest.strip_prefix(between)?;
                let closing = memchr::memchr(b']', rest)?;
                let (numbers, rest) = rest.split_at(closing);
                let rest = rest[1..].strip_prefix(after)?;
                read_numbers(numbers, ids)?;
                rest
            }
        };
        Some(Matched { length: bytes.len() - rest.len(), text, written })
    }

    /// Writes an event that was read without its ids.
    pub fn write(&self, matched: &Matched<'_>, out: &mut Vec<u8>) {
        let (member, list) = self.ids.unwrap_or((self.bytes.len(), self.bytes.len()));
        // An answer of one chunk, as most are, is written to memory of its size.
        let length = self.bytes.len() - (list - member) + matched.written.len();
        if out.is_empty() {
            out.reserve_exact(length);
        }
        out.extend_from_slice(&self.bytes[..self.text]);
        out.extend_from_slice(matched.written);
        out.extend_from_slice(&self.bytes[self.text..member]);
        out.extend_from_slice(&self.bytes[list..]);
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

/// Puts a list of ids without white space behind `ids`; where it is none, nothing of it.
fn read_numbers(list: &[u8], ids: &mut Vec<u32>) -> Option<()> {
    let before = ids.len();
    let read = read_each(list, ids);
    if read.is_none() {
        ids.truncate(before);
    }
    read
}

fn read_each(list: &[u8], ids: &mut Vec<u32>) -> Option<()> {
    if list.is_empty() {
        return Some(());
    }
    for (read, number) in list.split(|byte| *byte == b',').enumerate() {
        if number.is_empty() || IDS_MAX <= read || (number.len() > 1 && number[0] == b'0') {
            return None;
        }
        ids.push(number.iter().try_fold(0_u32, |id, digit| {
            let digit = char::from(*digit).to_digit(10)?;
            id.checked_mul(10)?.checked_add(digit)
        })?);
    }
    Some(())
}
