//! Forms that carry files (`multipart/form-data`): found in place, read as far as a gateway must know them.
//!
//! The gateway needs a few short fields and leaves all other bytes as they are, so a form is the ranges of its parts in
//! a body. Servers differ in what they make of a form that is not quite one. **Invariant:** what this scanner accepts,
//! every server divides into the same parts; what could be read in two ways is refused, or a client could show
//! the gateway one `model` and its worker another. Number and size of what is read are bounded.

mod boundary;
mod parameters;
mod part_head;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem::{self, Finder};
use serde_json::{Map, Value};

pub use self::boundary::Boundary;
use self::part_head::PartHead;
use crate::error::ApiError;

/// Parts of one form at most.
pub const PARTS_MAX: usize = 1_000;

/// Bytes of a part's head at most.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Bytes of a field that is read at most.
const FIELD_BYTES_MAX: usize = 1_024;

const MODEL: &str = "model";

/// The fields that a gateway reads, by the names that they have in JSON, besides `stream`.
const TEXTS: [&str; 3] = [MODEL, "user", "service_tier"];

/// Why a body is no form that can be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each is")]
pub enum FormFault {
    #[error(
        "the `content-type` of the form cannot be read; expected `multipart/form-data; boundary=TEXT`"
    )]
    ContentType,
    #[error("the `content-type` of the form names a charset; expected `utf-8` or none")]
    Charset,
    #[error(
        "the `content-type` of the form has no boundary; expected `multipart/form-data; boundary=TEXT`"
    )]
    NoBoundary,
    #[error("the form's boundary has {0} bytes; expected 1 to {max}", max = boundary::BOUNDARY_BYTES_MAX)]
    BoundaryLength(usize),
    #[error(
        "the form's boundary has a character that RFC 2046 does not allow; expected letters, digits and `-_`"
    )]
    BoundaryText,
    #[error(
        "the body does not begin with the boundary of its `content-type`; send the form as the client encoded it"
    )]
    Beginning,
    #[error("the form breaks off before its last boundary; send all of it")]
    Truncated,
    #[error(
        "a line of the form begins with the boundary and goes on; choose a boundary that is in no part"
    )]
    LookAlike,
    #[error("something follows the last boundary of the form; expected nothing")]
    Epilogue,
    #[error("the form has more than {PARTS_MAX} parts; send fewer")]
    TooMany,
    #[error("the head of a part exceeds {HEAD_BYTES_MAX} bytes; send a shorter file name")]
    HeadLength,
    #[error(
        "the head of a part cannot be read; expected lines of `name: value` that end with CRLF"
    )]
    Head,
    #[error("a part has no name; expected `content-disposition: form-data; name=\"…\"`")]
    Unnamed,
    #[error(
        "the name of a part cannot be read for sure; expected one `name` in UTF-8 without a backslash"
    )]
    Name,
    #[error("a part has a `content-transfer-encoding`; expected `binary` or none")]
    Encoded,
}

impl From<FormFault> for ApiError {
    fn from(fault: FormFault) -> Self {
        Self::new(crate::ErrorKind::InvalidRequest, fault.to_string())
    }
}

/// One part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Whether it is a file: its head names one.
    pub is_file: bool,
    /// Where its value stands in the body.
    pub value: Range<usize>,
    /// The same with its head and the boundary before it, up to the next boundary.
    whole: Range<usize>,
}

/// A form, as ranges of its body.
#[derive(Clone, Debug)]
pub struct Form<'a> {
    body: &'a [u8],
    boundary: &'a Boundary,
    parts: Vec<Part<'a>>,
}

impl<'a> Form<'a> {
    /// Finds the parts of a whole body.
    ///
    /// ```
    /// use overdraft_wire::form::{Boundary, Form};
    ///
    /// let boundary = Boundary::of(b"multipart/form-data; boundary=b").unwrap().unwrap();
    /// let body = b"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--b--\r\n";
    /// let form = Form::parse(body, &boundary).unwrap();
    /// assert_eq!(form.members().unwrap(), r#"{"model":"whisper"}"#);
    /// assert!(Form::parse(&body[..body.len() - 4], &boundary).is_err());
    /// ```
    ///
    /// # Errors
    /// [`FormFault`] where it is no form, half of one, or one that servers divide differently.
    pub fn parse(body: &'a [u8], boundary: &'a Boundary) -> Result<Self, FormFault> {
        let finder = Finder::new(boundary.delimiter());
        let mut at = beginning(body, boundary)?;
        let mut parts = Vec::new();
        loop {
            let behind = at + boundary.dashed().len();
            let head = match body.get(behind..).unwrap_or_default() {
                [b'-', b'-', rest @ ..] => {
                    let rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
                    let form = Self { body, boundary, parts };
                    return if rest.is_empty() { Ok(form) } else { Err(FormFault::Epilogue) };
                }
                [b'\r', b'\n', ..] => behind + 2,
                [] | [b'-' | b'\r'] => return Err(FormFault::Truncated),
                _ => return Err(FormFault::LookAlike),
            };
            if PARTS_MAX <= parts.len() {
                return Err(FormFault::TooMany);
            }
            let length = head_length(&body[head..])?;
            let PartHead { name, is_file } = PartHead::parse(&body[head..head + length])?;
            let value = head + length + 4;
            // Its blank line would be the boundary's own for some servers.
            if body[value - 2..].starts_with(boundary.delimiter()) {
                return Err(FormFault::LookAlike);
            }
            let length = finder.find(&body[value..]).ok_or(FormFault::Truncated)?;
            let next = value + length + 2;
            parts.push(Part { name, is_file, value: value..value + length, whole: at..next });
            at = next;
        }
    }

    /// Its parts, in their order.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The value of a part.
    pub fn value(&self, part: &Part<'_>) -> &'a [u8] {
        &self.body[part.value.clone()]
    }

    /// The fields that a gateway reads as the JSON object that they are elsewhere, such as
    /// `{"model":"whisper","stream":true}`.
    ///
    /// # Errors
    /// 400 where one of them comes twice, is a file, is too long or is no UTF-8.
    pub fn members(&self) -> Result<String, ApiError> {
        let mut members = Map::new();
        for name in TEXTS {
            if let Some(text) = self.text(name)? {
                members.insert(name.to_owned(), text.into());
            }
        }
        // The worker judges what is neither.
        if self.text("stream")?.is_some_and(is_true) {
            members.insert("stream".to_owned(), true.into());
        }
        Ok(Value::Object(members).to_string())
    }

    /// A short field.
    fn text(&self, name: &'static str) -> Result<Option<&'a str>, ApiError> {
        let mut named = self.parts.iter().filter(|part| part.name == name);
        let Some(part) = named.next() else { return Ok(None) };
        let fault = |message: String| ApiError::invalid(name, message);
        if named.next().is_some() {
            return Err(fault(format!("the form has more than one part `{name}`; expected one")));
        }
        if part.is_file {
            return Err(fault(format!("the part `{name}` is a file; expected a text")));
        }
        let value = self.value(part);
        if FIELD_BYTES_MAX < value.len() {
            let length = value.len();
            return Err(fault(format!(
                "the part `{name}` has {length} bytes; expected {FIELD_BYTES_MAX} at most"
            )));
        }
        let text = std::str::from_utf8(value);
        text.map(Some)
            .map_err(|_| fault(format!("the part `{name}` is not UTF-8; expected a text")))
    }

    /// The body with `model` as its model and without the parts that `is_dropped` names, in pieces of which none is a
    /// copy of the client's; none where that changes nothing.
    pub fn edited(
        &self,
        body: &Bytes,
        model: Option<&str>,
        is_dropped: impl Fn(&str) -> bool,
    ) -> Vec<Bytes> {
        debug_assert_eq!(body.len(), self.body.len(), "it is the body that was read");
        let mut pieces = Vec::new();
        let mut kept = 0;
        let mut cut = |range: Range<usize>, instead: Vec<u8>| {
            pieces.push(body.slice(kept..range.start));
            pieces.push(Bytes::from(instead));
            kept = range.end;
        };
        if let Some(model) = model.filter(|_| self.parts.iter().all(|part| part.name != MODEL)) {
            let dashed = String::from_utf8_lossy(self.boundary.dashed());
            let part = format!(
                "{dashed}\r\ncontent-disposition: form-data; name=\"{MODEL}\"\r\n\r\n{model}\r\n"
            );
            cut(0..0, part.into_bytes());
        }
        for part in &self.parts {
            match model {
                Some(model) if part.name == MODEL => cut(part.value.clone(), model.into()),
                _ if is_dropped(part.name) => cut(part.whole.clone(), Vec::new()),
                _ => {}
            }
        }
        if !pieces.is_empty() {
            pieces.push(body.slice(kept..));
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// Where the first boundary stands. A blank line before it is allowed, and nothing else: some servers skip what is
/// there, others do not.
fn beginning(body: &[u8], boundary: &Boundary) -> Result<usize, FormFault> {
    let at = if body.starts_with(b"\r\n") { 2 } else { 0 };
    let (rest, dashed) = (&body[at..], boundary.dashed());
    match () {
        () if rest.starts_with(dashed) => Ok(at),
        () if dashed.starts_with(rest) => Err(FormFault::Truncated),
        () => Err(FormFault::Beginning),
    }
}

/// Bytes of a head up to its blank line.
fn head_length(rest: &[u8]) -> Result<usize, FormFault> {
    const END: &[u8] = b"\r\n\r\n";
    let near = &rest[..rest.len().min(HEAD_BYTES_MAX + END.len())];
    memmem::find(near, END).ok_or(if rest.len() <= HEAD_BYTES_MAX {
        FormFault::Truncated
    } else {
        FormFault::HeadLength
    })
}

/// Whether a field says yes, in the words that servers in Python take.
fn is_true(text: &str) -> bool {
    ["1", "true", "t", "yes", "y", "on"].iter().any(|yes| text.trim().eq_ignore_ascii_case(yes))
}
