//! The one form of `NumPy`'s arrays that scores come in: a matrix of little-endian 32-bit floats, row by row.
//!
//! Format: `numpy.lib.format`, versions 1 to 3. A library for all of it would be larger than the one case that is
//! ever sent, and every other is refused here by name.

use super::ScoringError;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes that a header may have; `numpy.save` writes 128 with all that is before it.
pub(super) const HEADER_MAX: usize = 1024;

/// Bytes of a number.
pub(super) const NUMBER: usize = size_of::<f32>();

/// The numbers of a matrix of `rows` times `columns`, row by row.
pub(super) fn read(bytes: &[u8], rows: usize, columns: usize) -> Result<Vec<f32>, ScoringError> {
    let (header, data) = split(bytes)?;
    let kind = value(&header, "'descr':").ok_or(ScoringError::Header("it names no `descr`"))?;
    let kind = kind.split(',').next().unwrap_or_default();
    if kind != "'<f4'" {
        return Err(ScoringError::Kind(kind.trim_matches('\'').to_owned()));
    }
    let order = value(&header, "'fortran_order':");
    let order = order.ok_or(ScoringError::Header("it names no `fortran_order`"))?;
    if !order.starts_with("False") {
        return Err(ScoringError::Header("it is told column by column; expected row by row"));
    }
    let shape = value(&header, "'shape':").and_then(|rest| Some(rest.split_once(')')?.0));
    let shape = shape.ok_or(ScoringError::Header("it names no `shape`"))?;
    if shape.trim_end_matches(',') != format!("({rows},{columns}") {
        return Err(ScoringError::Shape { found: format!("{shape})"), rows, columns });
    }
    let (numbers, rest) = data.as_chunks();
    if !rest.is_empty() || Some(numbers.len()) != rows.checked_mul(columns) {
        let expected = rows.saturating_mul(columns).saturating_mul(NUMBER);
        return Err(ScoringError::Length { found: data.len(), expected });
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// The header without spaces and with one kind of quotes, and what follows it.
fn split(bytes: &[u8]) -> Result<(String, &[u8]), ScoringError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(ScoringError::Header("it begins otherwise"))?;
    let cut = ScoringError::Header("it is cut off");
    let (length, rest) = match rest {
        [1, 0, low, high, rest @ ..] => (usize::from(u16::from_le_bytes([*low, *high])), rest),
        [2 | 3, 0, a, b, c, d, rest @ ..] => {
            let length = u32::from_le_bytes([*a, *b, *c, *d]);
            (usize::try_from(length).unwrap_or(usize::MAX), rest)
        }
        [1..=3, 0, ..] => return Err(cut),
        _ => return Err(ScoringError::Header("its version is not 1.0, 2.0 or 3.0")),
    };
    if HEADER_MAX < length {
        return Err(ScoringError::Header("it is longer than 1,024 bytes"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or(cut)?;
    let text = std::str::from_utf8(header).map_err(|_| ScoringError::Header("it is no text"))?;
    let mut text = text.replace('"', "'");
    text.retain(|character| !character.is_ascii_whitespace());
    let dict = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let dict = dict.ok_or(ScoringError::Header("it is no dictionary"))?;
    Ok((dict.to_owned(), data))
}

/// What follows a key.
fn value<'a>(dict: &'a str, key: &str) -> Option<&'a str> {
    let (before, after) = dict.split_once(key)?;
    // Not inside of another value.
    (before.is_empty() || before.ends_with(',')).then_some(after)
}
