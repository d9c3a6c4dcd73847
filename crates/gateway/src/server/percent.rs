//! Paths and queries as they are meant: percent-decoding, and slashes that say nothing.

use std::borrow::Cow;

/// Resolves `%2F` and its kin; what is no escape stays as it is.
pub(crate) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped = (byte == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path without the slashes that clients of a base URL with a slash at its end double, and without one at
/// its own end.
pub(crate) fn plain_path(path: &str) -> Cow<'_, str> {
    let is_plain = !path.contains("//") && (path == "/" || !path.ends_with('/'));
    if is_plain {
        return Cow::Borrowed(path);
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    Cow::Owned(format!("/{}", parts.join("/")))
}
