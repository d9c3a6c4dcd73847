//! Where do the members of a JSON object lie? One pass over the bytes, checking the grammar.
//!
//! An own scanner, because the workspace's JSON library neither tells where a value begins nor limits
//! the depth of values it skips, and both are needed before a byte is forwarded. Strings, the bulk of
//! a prompt, are skipped sixteen bytes at a time. **Invariant:** accepted input is UTF-8, one object that
//! follows RFC 8259, and nested at most [`DEPTH_MAX`] deep. (A `\u` escape may name half a surrogate
//! pair: whether that is a character is for the reader of that string to say.)

use std::borrow::Cow;

use crate::error::{ApiError, ErrorKind};

/// Arrays and objects inside each other at most; what `serde_json` accepts.
pub const DEPTH_MAX: usize = 127;

/// Bytes of a string compared together: one vector of what every machine has.
const STRIDE: usize = 16;

/// Bytes of a string looked at as one number.
const LANE: usize = 8;

/// The bytes are not one JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not a JSON object: {reason} at byte {position}")]
pub struct JsonError {
    /// Bytes before the fault.
    pub position: usize,
    /// What was found or expected there.
    pub reason: &'static str,
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        Self::new(ErrorKind::InvalidJson, error.to_string())
    }
}

/// One `"key": value` of an object, as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The key with its quotes and escapes.
    raw_key: &'a str,
    /// Whether the key has escapes; nearly none has.
    is_escaped: bool,
    /// The value's text.
    raw_value: &'a str,
    /// Where the key's quote stands in the source.
    pub(super) start: usize,
    /// Where the value's first byte stands in the source.
    pub(super) value_start: usize,
}

impl<'a> Member<'a> {
    /// The key, unescaped; as written if its escapes are no characters.
    pub fn key(&self) -> Cow<'a, str> {
        let inside = self.inside();
        if !self.is_escaped {
            return Cow::Borrowed(inside);
        }
        serde_json::from_str::<String>(self.raw_key).map_or(Cow::Borrowed(inside), Cow::Owned)
    }

    /// The key between its quotes, as it was written.
    fn inside(&self) -> &'a str {
        &self.raw_key[1..self.raw_key.len() - 1]
    }

    /// Whether this is the key. A request is asked for two dozen names, so this is worth a shortcut.
    fn is_called(&self, name: &str) -> bool {
        if self.is_escaped { self.key() == name } else { self.inside() == name }
    }

    /// The value's text, escapes and all.
    pub const fn value(&self) -> &'a str {
        self.raw_value
    }

    /// Where the byte after the value stands in the source.
    pub(super) const fn end(&self) -> usize {
        self.value_start + self.raw_value.len()
    }
}

/// A JSON object whose members have been located, not read.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    source: &'a str,
    members: Vec<Member<'a>>,
}

impl<'a> Object<'a> {
    /// Locates the members of the object that `bytes` are.
    ///
    /// # Errors
    /// [`JsonError`] with the place of the first fault.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        let source = simdutf8::compat::from_utf8(bytes).map_err(|error| JsonError {
            position: error.valid_up_to(),
            reason: "invalid UTF-8",
        })?;
        let mut scanner = Scanner { source, bytes, position: 0, controls: holds_controls(bytes) };
        let members = scanner.document()?;
        Ok(Self { source, members })
    }

    /// The text it was parsed from.
    pub const fn source(&self) -> &'a str {
        self.source
    }

    /// The members in the order they were written, duplicates included.
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// The text of the member called `name`. Of duplicates the last counts, as for every common
    /// reader of JSON.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rev().find(|member| member.is_called(name)).map(Member::value)
    }
}

/// Walks over the source; `position` is the next byte to look at.
struct Scanner<'a> {
    source: &'a str,
    bytes: &'a [u8],
    position: usize,
    /// Whether there are control characters. Nearly all clients write none, not even line ends
    /// between values, and then only two bytes can end a run of plain text.
    controls: Controls,
}

/// Whether a text holds characters below the space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Controls {
    Nowhere,
    Somewhere,
}

/// What is open around the scanner's position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

impl<'a> Scanner<'a> {
    fn document(&mut self) -> Result<Vec<Member<'a>>, JsonError> {
        self.skip_space();
        if self.peek() != Some(b'{') {
            return Err(self.fault("expected `{`"));
        }
        self.position += 1;
        let mut members = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.position += 1;
        } else {
            while self.member(&mut members)? {}
        }
        self.skip_space();
        if self.position < self.bytes.len() {
            return Err(self.fault("unexpected text after the object"));
        }
        Ok(members)
    }

    /// Reads one member and what follows it; false after the closing brace.
    fn member(&mut self, members: &mut Vec<Member<'a>>) -> Result<bool, JsonError> {
        self.skip_space();
        let start = self.position;
        self.string()?;
        let raw_key = &self.source[start..self.position];
        let is_escaped = memchr::memchr(b'\\', raw_key.as_bytes()).is_some();
        self.colon()?;
        self.skip_space();
        let value_start = self.position;
        self.value()?;
        let raw_value = &self.source[value_start..self.position];
        members.push(Member { raw_key, is_escaped, raw_value, start, value_start });
        self.skip_space();
        let byte = self.peek();
        self.position += 1;
        match byte {
            Some(b',') => Ok(true),
            Some(b'}') => Ok(false),
            _ => {
                self.position -= 1;
                Err(self.fault("expected `,` or `}`"))
            }
        }
    }

    /// Skips one value of any shape. The open containers are on a stack of our own: recursion would
    /// let the client choose how much of the thread's stack is used.
    fn value(&mut self) -> Result<(), JsonError> {
        let mut open: Vec<Container> = Vec::new();
        loop {
            self.skip_space();
            let opened = match self.peek() {
                Some(b'{') => Some(Container::Object),
                Some(b'[') => Some(Container::Array),
                _ => None,
            };
            if let Some(container) = opened {
                // The document's own braces are one level.
                if open.len() + 1 >= DEPTH_MAX {
                    return Err(self.fault("values are nested too deeply"));
                }
                self.position += 1;
                self.skip_space();
                if self.peek() == Some(container.closing()) {
                    self.position += 1;
                } else {
                    open.push(container);
                    self.key_if(container)?;
                    continue;
                }
            } else {
                self.scalar()?;
            }
            if !self.close(&mut open)? {
                return Ok(());
            }
        }
    }

    /// After a value: closes what ends here; true if another value follows in an open container.
    fn close(&mut self, open: &mut Vec<Container>) -> Result<bool, JsonError> {
        while let Some(&container) = open.last() {
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.position += 1;
                    self.key_if(container)?;
                    return Ok(true);
                }
                Some(byte) if byte == container.closing() => {
                    self.position += 1;
                    open.pop();
                }
                _ => return Err(self.fault(container.expectation())),
            }
        }
        Ok(false)
    }

    /// In an object, the next value has a key.
    fn key_if(&mut self, container: Container) -> Result<(), JsonError> {
        if container == Container::Object {
            self.skip_space();
            self.string()?;
            self.colon()?;
        }
        Ok(())
    }

    fn colon(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.fault("expected `:`"));
        }
        self.position += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.fault("expected a value")),
            None => Err(self.fault("unexpected end")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), JsonError> {
        if !self.bytes[self.position..].starts_with(word.as_bytes()) {
            return Err(self.fault("expected a value"));
        }
        self.position += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        // A leading zero stands alone.
        if self.peek() == Some(b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        if self.position == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected `\"`"));
        }
        self.position += 1;
        if self.controls == Controls::Nowhere {
            return self.string_of_text();
        }
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.fault("unescaped control character in a string")),
                None => return Err(self.fault("unterminated string")),
            }
        }
    }

    /// The rest of a string where there are no control characters. Prose has an escape in nearly every
    /// line, so what is done at each of them is most of what a long prompt costs here.
    fn string_of_text(&mut self) -> Result<(), JsonError> {
        loop {
            let rest = &self.bytes[self.position..];
            let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
                self.position = self.bytes.len();
                return Err(self.fault("unterminated string"));
            };
            self.position += at;
            match &rest[at..] {
                [b'"', ..] => {
                    self.position += 1;
                    return Ok(());
                }
                [_, b'n' | b'"' | b'\\' | b'/' | b'b' | b'f' | b'r' | b't', ..] => {
                    self.position += 2;
                }
                _ => self.escape()?,
            }
        }
    }

    /// Moves to the next quote, backslash or control character.
    fn skip_plain(&mut self) {
        let mut rest = &self.bytes[self.position..];
        // Long runs of plain text in wide steps. Without an early exit within a step the compiler
        // compares all its bytes at once.
        while let Some((stride, tail)) = rest.split_first_chunk::<STRIDE>() {
            if stride.iter().fold(false, |ends, &byte| ends | ends_plain(byte)) {
                break;
            }
            rest = tail;
        }
        // The end of a run to the byte, without a branch for each.
        while let Some((lane, tail)) = rest.split_first_chunk::<LANE>() {
            let ends = plain_ends(u64::from_le_bytes(*lane));
            if ends != 0 {
                let plain = ends.trailing_zeros() as usize / 8;
                self.position = self.bytes.len() - rest.len() + plain;
                return;
            }
            rest = tail;
        }
        let plain = rest.iter().position(|&byte| ends_plain(byte)).unwrap_or(rest.len());
        self.position = self.bytes.len() - rest.len() + plain;
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        self.position += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.position += 1,
            Some(b'u') => {
                self.position += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.fault("expected four hexadecimal digits"));
                    }
                    self.position += 1;
                }
            }
            _ => return Err(self.fault("unknown escape in a string")),
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn fault(&self, reason: &'static str) -> JsonError {
        let reason =
            if self.position >= self.bytes.len() { "unexpected end of the text" } else { reason };
        JsonError { position: self.position, reason }
    }
}

impl Container {
    const fn closing(self) -> u8 {
        match self {
            Self::Array => b']',
            Self::Object => b'}',
        }
    }

    const fn expectation(self) -> &'static str {
        match self {
            Self::Array => "expected `,` or `]`",
            Self::Object => "expected `,` or `}`",
        }
    }
}

/// Looks at every byte, without an exit: the compiler then compares many at once.
fn holds_controls(bytes: &[u8]) -> Controls {
    let lowest = bytes.iter().fold(u8::MAX, |lowest, &byte| lowest.min(byte));
    if lowest < b' ' { Controls::Somewhere } else { Controls::Nowhere }
}

/// Whether a run of plain text ends before this byte.
#[expect(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch: no vectors then")]
const fn ends_plain(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < b' ')
}

/// Sets the high bit of every byte of `lane` that ends a run of plain text. Bytes above the first
/// such byte may be marked wrongly, by borrows; only the lowest mark is to be used. (Mycroft's test
/// for a zero byte, here for a difference and for a value below a bound.)
const fn plain_ends(lane: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH_BITS: u64 = ONES << 7;
    let control = lane.wrapping_sub(ONES * 0x20) & !lane;
    let from_quote = lane ^ (ONES * b'"' as u64);
    let quote = from_quote.wrapping_sub(ONES) & !from_quote;
    let from_backslash = lane ^ (ONES * b'\\' as u64);
    let backslash = from_backslash.wrapping_sub(ONES) & !from_backslash;
    (control | quote | backslash) & HIGH_BITS
}
