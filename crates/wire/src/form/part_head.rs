//! Head of a form's part: what the part is called, and whether it is a file (RFC 7578, section 4).
//!
//! Servers read odd heads in different ways. **Invariant:** a head that two servers could read differently is
//! refused, so that no worker sees another field than the gateway has judged.

use std::borrow::Cow;

use super::FormFault;
use super::parameters::{Malformed, Parameters};

/// What the head of a part says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartHead<'a> {
    pub(super) name: &'a str,
    /// Whether it names a file.
    pub(super) is_file: bool,
}

impl<'a> PartHead<'a> {
    /// Reads the lines of a head, without the blank line behind them.
    pub(super) fn parse(head: &'a [u8]) -> Result<Self, FormFault> {
        let mut told = None;
        for line in lines(head) {
            let (name, value) = field(line?)?;
            if name.eq_ignore_ascii_case(b"content-disposition") {
                if told.replace(disposition(value)?).is_some() {
                    return Err(FormFault::Head);
                }
            } else if name.eq_ignore_ascii_case(b"content-transfer-encoding") && !is_plain(value) {
                return Err(FormFault::Encoded);
            }
        }
        told.ok_or(FormFault::Unnamed)
    }
}

/// The lines of a head. Line ends that are not CRLF end a line for some servers and not for others.
fn lines(head: &[u8]) -> impl Iterator<Item = Result<&[u8], FormFault>> {
    let mut rest = Some(head);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let Some(end) = memchr::memchr2(b'\r', b'\n', all) else { return Some(Ok(all)) };
        let Some(next) = all[end..].strip_prefix(b"\r\n") else {
            return Some(Err(FormFault::Head));
        };
        rest = Some(next);
        Some(Ok(&all[..end]))
    })
}

/// Name and value of a line; one that goes on the line before begins with a space and has no name.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), FormFault> {
    let colon = memchr::memchr(b':', line).ok_or(FormFault::Head)?;
    let name = &line[..colon];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-' || *byte == b'_';
    if name.is_empty() || !name.iter().all(is_name) {
        return Err(FormFault::Head);
    }
    Ok((name, line[colon + 1..].trim_ascii()))
}

fn disposition(value: &[u8]) -> Result<PartHead<'_>, FormFault> {
    let (kind, parameters) = Parameters::of(value);
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err(FormFault::Unnamed);
    }
    let (mut name, mut is_file) = (None, false);
    for parameter in parameters {
        let parameter = parameter.map_err(|Malformed| FormFault::Head)?;
        if parameter.is("name") {
            // A backslash is part of the name for browsers and quotes the next letter for others.
            let Cow::Borrowed(own) = parameter.value else { return Err(FormFault::Name) };
            let own = std::str::from_utf8(own).map_err(|_| FormFault::Name)?;
            if own.is_empty() || name.replace(own).is_some() {
                return Err(FormFault::Name);
            }
        } else if parameter.name.to_ascii_lowercase().starts_with("name*") {
            return Err(FormFault::Name);
        } else if parameter.name.to_ascii_lowercase().starts_with("filename") {
            is_file = true;
        }
    }
    Ok(PartHead { name: name.ok_or(FormFault::Unnamed)?, is_file })
}

/// Whether a part's value is what its bytes say.
fn is_plain(encoding: &[u8]) -> bool {
    [&b"7bit"[..], b"8bit", b"binary"].iter().any(|plain| encoding.eq_ignore_ascii_case(plain))
}
