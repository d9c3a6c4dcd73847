//! JSON scanner: finds the members of an object in one pass and checks the grammar.
//!
//! An own scanner, because the workspace's JSON library neither tells where a value begins nor limits
//! the depth of values it skips, and both are needed before a byte is forwarded. Strings, the bulk of
//! a prompt, are skipped 64 bytes at a time. **Invariant:** accepted input is UTF-8, one object that
//! follows RFC 8259, and nested at most [`DEPTH_MAX`] deep. (A `\u` escape may name half a surrogate
//! pair: whether that is a character is for the reader of that string to say.)

use std::borrow::Cow;

use super::text;
use crate::error::{ApiError, ErrorKind};

/// Arrays and objects inside each other at most; what `serde_json` accepts.
pub const DEPTH_MAX: usize = 127;

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
        let mut scanner = Scanner { source, bytes, position: 0 };
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
        match text::end_of(self.bytes, self.position + 1) {
            Ok(end) => {
                self.position = end;
                Ok(())
            }
            Err(text::Fault { position, reason }) => {
                self.position = position;
                Err(self.fault(reason))
            }
        }
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
