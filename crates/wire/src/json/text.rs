//! JSON string scanner: finds the end of a string and checks its bytes (SIMD within a register).
//!
//! A prompt is mostly one long string, so this scan is most of the cost of parsing a request. It
//! compares 64 bytes at a time with the three kinds of special bytes (quote, backslash, control
//! character) and inspects only those: prose has an escape in nearly every line.

use wide::u8x32;

/// Bytes that are compared at once: one bit each in a mask.
const BLOCK: usize = 64;

/// Escapes of a block of prose, at most.
const PROSE_ESCAPES: usize = 3;

/// Bytes below it are control characters, which must be escaped.
const SPACE: u8 = b' ';

/// A parse error and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) position: usize,
    pub(super) reason: &'static str,
}

/// The offset after the closing quote of a string whose text begins at `begin`.
pub(super) fn end_of(bytes: &[u8], begin: usize) -> Result<usize, Fault> {
    let mut position = begin;
    while let Some(block) = bytes.get(position..).and_then(|rest| rest.first_chunk()) {
        let marks = Marks::of(block);
        if marks.is_prose(block) {
            position += BLOCK;
            continue;
        }
        let mut marks = marks.all();
        let mut passed = BLOCK;
        while marks != 0 {
            let at = position + marks.trailing_zeros() as usize;
            if bytes[at] == b'"' {
                return Ok(at + 1);
            }
            passed = escape(bytes, at)? - position;
            if BLOCK <= passed {
                break;
            }
            // What the escape stands for is no quote, and no escape of its own.
            marks &= u64::MAX << passed;
            passed = BLOCK;
        }
        position += passed;
    }
    last_bytes(bytes, position)
}

/// The same, byte by byte.
fn last_bytes(bytes: &[u8], mut position: usize) -> Result<usize, Fault> {
    while let Some(&byte) = bytes.get(position) {
        position = match byte {
            b'"' => return Ok(position + 1),
            b'\\' | ..SPACE => escape(bytes, position)?,
            _ => position + 1,
        };
    }
    Err(Fault { position, reason: "unterminated string" })
}

/// A bit for each byte that ends a run of plain text.
#[derive(Clone, Copy)]
struct Marks {
    quotes: u64,
    backslashes: u64,
    controls: u64,
}

impl Marks {
    #[inline]
    fn of(block: &[u8; BLOCK]) -> Self {
        let (halves, _) = block.as_chunks();
        let [low, high] = [halves[0], halves[1]].map(u8x32::new);
        let join = |low: u8x32, high: u8x32| {
            u64::from(low.to_bitmask()) | u64::from(high.to_bitmask()) << 32
        };
        let same = |byte: u8| {
            let byte = u8x32::splat(byte);
            join(low.simd_eq(byte), high.simd_eq(byte))
        };
        let most = u8x32::splat(SPACE - 1);
        let controls = join(low.min(most).simd_eq(low), high.min(most).simd_eq(high));
        Self { quotes: same(b'"'), backslashes: same(b'\\'), controls }
    }

    const fn all(self) -> u64 {
        self.quotes | self.backslashes | self.controls
    }

    /// Whether the block is as most are: within the string, with a few short escapes at most. It is
    /// told without a branch for each of these, for how many there are nobody can predict.
    #[expect(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch")]
    #[inline]
    fn is_prose(self, block: &[u8; BLOCK]) -> bool {
        let escaped = self.backslashes << 1;
        let ends = self.quotes & !escaped;
        let odd = self.backslashes & (escaped | 1 << (BLOCK - 1));
        if ends | odd | self.controls != 0 {
            return false;
        }
        let (mut rest, mut known) = (escaped, true);
        for _ in 0..PROSE_ESCAPES {
            let next = block[rest.trailing_zeros() as usize % BLOCK];
            known &= SHORT[usize::from(next)] | (rest == 0);
            rest &= rest.wrapping_sub(1);
        }
        known && rest == 0
    }
}

/// Whether a backslash and this byte are an escape by themselves.
const SHORT: [bool; 256] = {
    let mut short = [false; 256];
    let mut at = 0;
    let all = br#""\/bfnrt"#;
    while at < all.len() {
        short[all[at] as usize] = true;
        at += 1;
    }
    short
};

/// Where the byte after an escape stands; the fault of a control character.
fn escape(bytes: &[u8], position: usize) -> Result<usize, Fault> {
    match bytes[position..] {
        [b'\\', next, ..] if SHORT[usize::from(next)] => Ok(position + 2),
        [b'\\', b'u', ref digits @ ..] => {
            let digits = digits.iter().take(4).take_while(|digit| digit.is_ascii_hexdigit());
            match digits.count() {
                4 => Ok(position + 6),
                few => {
                    let position = position + 2 + few;
                    Err(Fault { position, reason: "expected four hexadecimal digits" })
                }
            }
        }
        [b'\\', ..] => Err(Fault { position: position + 1, reason: "unknown escape in a string" }),
        _ => Err(Fault { position, reason: "unescaped control character in a string" }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_a_string_is_one_for_every_reader_and_ends_where_it_ends(
            text in r#"([a-z ]{0,40}(\\[n"u\\/xtq]|\\u00[0-9a]|["\n\t\x1f\x20é]){0,1}){0,6}"#,
            more in "[ -~]{0,80}",
        ) {
            let whole = format!("\"{text}\"{more}");
            let mut values = serde_json::Deserializer::from_str(&whole).into_iter::<String>();
            let read = values.next().expect("there is something to read");
            match (end_of(whole.as_bytes(), 1), read) {
                (Ok(end), read) => {
                    prop_assert_eq!(values.byte_offset(), end);
                    prop_assert!(read.is_ok());
                }
                (Err(_), read) => prop_assert!(read.is_err()),
            }
        }
    }
}
