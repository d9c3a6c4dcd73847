//! Header parameters: `; name=value` and `; name="value"` behind a header's value (RFC 9110, section 5.6.6).

use std::borrow::Cow;

/// What stands behind a value is no list of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    /// Without its quotation marks; owned where a backslash was in it.
    pub(super) value: Cow<'a, [u8]>,
}

impl Parameter<'_> {
    /// Whether it has this name, which is in lower case.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The parameters of a header, one after the other.
#[derive(Debug)]
pub(super) struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// A header's value, and the parameters behind it.
    pub(super) fn of(header: &'a [u8]) -> (&'a [u8], Self) {
        let end = memchr::memchr(b';', header).unwrap_or(header.len());
        (header[..end].trim_ascii(), Self { rest: &header[end..] })
    }

    fn read(&mut self) -> Result<Option<Parameter<'a>>, Malformed> {
        let rest = self.rest.trim_ascii();
        if rest.is_empty() || rest == b";" {
            self.rest = &[];
            return Ok(None);
        }
        let rest = rest.strip_prefix(b";").ok_or(Malformed)?.trim_ascii_start();
        let equals = memchr::memchr(b'=', rest).ok_or(Malformed)?;
        let name = std::str::from_utf8(&rest[..equals]).map_err(|_| Malformed)?;
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(Malformed);
        }
        let rest = &rest[equals + 1..];
        let value = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let (value, length) = unquoted(quoted)?;
            self.rest = &quoted[length..];
            value
        } else {
            let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
            self.rest = &rest[end..];
            Cow::Borrowed(rest[..end].trim_ascii_end())
        };
        Ok(Some(Parameter { name, value }))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        read.transpose()
    }
}

/// A quoted text up to its closing mark, and how far that goes.
fn unquoted(quoted: &[u8]) -> Result<(Cow<'_, [u8]>, usize), Malformed> {
    let mark = memchr::memchr2(b'"', b'\\', quoted).ok_or(Malformed)?;
    if quoted[mark] == b'"' {
        return Ok((Cow::Borrowed(&quoted[..mark]), mark + 1));
    }
    let mut value = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Ok((Cow::Owned(value), at + 1)),
            b'\\' => value.push(*bytes.next().ok_or(Malformed)?.1),
            byte => value.push(byte),
        }
    }
    Err(Malformed)
}

/// Whether a byte may stand in a parameter's name.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'*' | b'!' | b'#' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, value: &str, parameters: &[(&str, &str)]) {
        let (own, read) = Parameters::of(header.as_bytes());
        assert_eq!(String::from_utf8_lossy(own), value);
        let read: Vec<_> = read
            .map(|one| one.unwrap())
            .map(|one| (one.name, String::from_utf8_lossy(&one.value).into_owned()))
            .collect();
        let expected: Vec<_> =
            parameters.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        assert_eq!(read, expected, "{header}");
    }

    #[test]
    fn parameters_are_read_quoted_or_not() {
        check("multipart/form-data", "multipart/form-data", &[]);
        check("a/b ;  boundary=x-1 ; ", "a/b", &[("boundary", "x-1")]);
        check(r#"form-data; name="a;b=c"; x=y"#, "form-data", &[("name", "a;b=c"), ("x", "y")]);
        check(r#"f; filename="a\"b\\c.wav""#, "f", &[("filename", r#"a"b\c.wav"#)]);
        check("f; filename*=UTF-8''%e2%82%ac", "f", &[("filename*", "UTF-8''%e2%82%ac")]);
    }

    #[test]
    fn what_is_no_list_of_parameters_is_an_error_and_the_end() {
        for header in ["f; name", "f; =x", r#"f; name="x"#, r#"f; name="x\"#, r#"f; name="x" y=z"#]
        {
            let mut read = Parameters::of(header.as_bytes()).1;
            let error = read.by_ref().find_map(Result::err);
            assert_eq!(error, Some(Malformed), "{header}");
            assert_eq!(read.next(), None, "{header}");
        }
    }
}
