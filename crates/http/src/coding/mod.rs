//! Content codings: gzip and zstd, of requests as they come and of answers where clients ask for it.
//!
//! See RFC 9110 (section 8.4), RFC 1952 (gzip) and RFC 8878 (zstd).

mod decoded_body;
mod encoded_body;
mod frame_reader;

use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderMap, HeaderValue};

pub(crate) use self::decoded_body::DecodedBody;
pub use self::encoded_body::encode;

/// How the bytes of a body are written down more shortly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// What requests may be encoded by, as clients are told.
pub(crate) const UNDERSTOOD: HeaderValue = HeaderValue::from_static("gzip, zstd, identity");

/// Of codings that clients like equally, the first is taken.
const PREFERRED: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

impl Coding {
    /// Its name in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// What a request's body is encoded by, if by anything.
    ///
    /// # Errors
    /// With the value that is not understood.
    pub(crate) fn of(head: &HeaderMap) -> Result<Option<Self>, &HeaderValue> {
        let mut values = head.get_all(CONTENT_ENCODING).iter();
        let Some(value) = values.next() else { return Ok(None) };
        match value.as_bytes().trim_ascii() {
            _ if values.next().is_some() => Err(value),
            name if name.eq_ignore_ascii_case(b"identity") => Ok(None),
            name if name.eq_ignore_ascii_case(b"gzip") => Ok(Some(Self::Gzip)),
            // The same by its old name (RFC 9110, section 8.4.1.3).
            name if name.eq_ignore_ascii_case(b"x-gzip") => Ok(Some(Self::Gzip)),
            name if name.eq_ignore_ascii_case(b"zstd") => Ok(Some(Self::Zstd)),
            _ => Err(value),
        }
    }

    /// What a client would like an answer to be encoded by: what it names with the greatest weight, if that is not
    /// zero. A star stands for nothing in particular and counts for nothing.
    ///
    /// ```
    /// use http::{HeaderMap, HeaderValue, header::ACCEPT_ENCODING};
    /// use overdraft_http::Coding;
    ///
    /// let accept = |value| HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
    /// assert_eq!(Coding::wanted(&accept("gzip, deflate, br")), Some(Coding::Gzip));
    /// assert_eq!(Coding::wanted(&accept("gzip, zstd")), Some(Coding::Zstd));
    /// assert_eq!(Coding::wanted(&accept("gzip;q=0.5, zstd;q=0.1")), Some(Coding::Gzip));
    /// assert_eq!(Coding::wanted(&accept("gzip;q=0, *")), None);
    /// ```
    pub fn wanted(head: &HeaderMap) -> Option<Self> {
        let values = head.get_all(ACCEPT_ENCODING).iter();
        let listed =
            values.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
        let mut best = None;
        for (name, weight) in listed.map(weighed) {
            let known =
                PREFERRED.iter().position(|coding| name.eq_ignore_ascii_case(coding.name()));
            let Some(rank) = known.filter(|_| weight > 0) else { continue };
            let better = (weight, PREFERRED.len() - rank);
            best = best.max(Some(better));
        }
        best.map(|(_, place)| PREFERRED[PREFERRED.len() - place])
    }
}

/// One entry of `accept-encoding`: its name, and its weight in thousandths.
fn weighed(entry: &str) -> (&str, u16) {
    let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
    let weight = parameters.split(';').find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().unwrap_or(0.0))
    });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between nought and a thousand"
    )]
    let weight = (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1_000.0) as u16;
    (name.trim(), weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&'static str], expected: Result<Option<Coding>, &str>) {
        let own = values.iter().map(|value| (CONTENT_ENCODING, HeaderValue::from_static(value)));
        let head: HeaderMap = own.collect();
        let found = Coding::of(&head).map_err(|value| value.to_str().expect("a text"));
        assert_eq!(found, expected, "{values:?}");
    }

    #[test]
    fn what_is_understood_is_named_and_nothing_else_is() {
        check(&[], Ok(None));
        check(&["identity"], Ok(None));
        check(&["GZip"], Ok(Some(Coding::Gzip)));
        check(&["x-gzip"], Ok(Some(Coding::Gzip)));
        check(&["zstd"], Ok(Some(Coding::Zstd)));
        check(&["br"], Err("br"));
        check(&["gzip, gzip"], Err("gzip, gzip"));
        check(&["gzip", "zstd"], Err("gzip"));
    }
}
