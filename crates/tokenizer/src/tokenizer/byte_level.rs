//! Byte-level alphabet: spells each byte as a printable character.
//!
//! GPT-2's table: a byte that is a printable Latin-1 character stands for itself, the other 68 are
//! the characters from U+0100 on, in order. **Invariant:** the table is a bijection.

/// Bytes that stand for themselves.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Where the characters of the other bytes begin.
const SHIFTED: u32 = 0x100;

/// The character of a byte.
pub(super) fn character(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !is_printable(other)).count();
    let code = SHIFTED + u32::try_from(before).expect("less than 256");
    char::from_u32(code).expect("U+0100 to U+0143 are characters")
}

/// The byte of a character; `None` if it stands for none.
fn byte(character: char) -> Option<u8> {
    if let Ok(byte) = u8::try_from(character) {
        return is_printable(byte).then_some(byte);
    }
    let place = u32::from(character).checked_sub(SHIFTED)? as usize;
    (0..=u8::MAX).filter(|&byte| !is_printable(byte)).nth(place)
}

/// Appends the bytes that a token's text spells. A character that stands for no byte is kept as it
/// is, as in vocabularies that were extended by hand.
pub(super) fn push_bytes(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match byte(character) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for value in 0..=u8::MAX {
            assert_eq!(byte(character(value)), Some(value));
        }
        assert_eq!((character(b' '), character(b'\n'), character(0xAD)), ('Ġ', 'Ċ', 'Ń'));
        assert_eq!(byte('你'), None);
    }
}
