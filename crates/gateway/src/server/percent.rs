//! Paths and queries as they are meant: percent-decoding, and slashes that say nothing.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Resolves `%2F` and its kin; what is no escape stays as it is.
pub(crate) fn unescaped(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_digits_are_an_escape() {
        let cases = [
            ("a%2Fb", "a/b"),
            ("%e6%80%9d", "思"),
            ("%", "%"),
            ("%4", "%4"),
            ("%+1", "%+1"),
            ("%zz", "%zz"),
        ];
        for (text, expected) in cases {
            assert_eq!(unescaped(text), expected);
        }
    }
}
