//! Spelling of pieces with scores (`SentencePiece`): spaces, and bytes that have no piece.

/// GGUF's name for vocabularies of pieces with scores.
pub(super) const PIECES: &str = "llama";
/// How pieces spell a space.
pub(super) const SPACE: char = '▁';

/// Appends the bytes that a piece spells.
pub(super) fn push_piece_bytes(text: &str, out: &mut Vec<u8>) {
    let byte = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    if let Some(byte) = byte.filter(|digits| digits.len() == 2 && !digits.starts_with('+'))
        && let Ok(byte) = u8::from_str_radix(byte, 16)
    {
        out.push(byte);
        return;
    }
    for part in text.split_inclusive(SPACE) {
        match part.strip_suffix(SPACE) {
            Some(before) => {
                out.extend_from_slice(before.as_bytes());
                out.push(b' ');
            }
            None => out.extend_from_slice(part.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_digits_spell_a_byte() {
        let spelled = |piece: &str| {
            let mut out = Vec::new();
            push_piece_bytes(piece, &mut out);
            out
        };
        assert_eq!(spelled("<0x0A>"), b"\n");
        assert_eq!(spelled("<0x+1>"), b"<0x+1>");
        assert_eq!(spelled("▁a▁"), b" a ");
    }
}
