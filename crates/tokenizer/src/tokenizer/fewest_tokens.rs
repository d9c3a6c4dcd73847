//! Fewest tokens: a lower bound on a text's tokens, told without encoding it.
//!
//! Encoding takes hundreds of bytes of memory for each byte of a stretch without a place to cut, so
//! a prompt that cannot fit is refused before (docs/design/tokenizing.md#r7). A token that covers a
//! byte covers at most as many bytes as the longest token that holds this byte. So each byte counts
//! as that part of a token, and the bytes of one token count as one token at most. **Invariant:** no
//! text has fewer tokens than are told.

use std::collections::BTreeMap;

use overdraft_units::Tokens;

use super::byte_level;
use super::model::byte_piece;
use super::piece_spelling::{PIECES, SPACE};
use super::source::{TokenKind, TokenizerSource};

/// A whole token, in the parts that are summed.
const WHOLE: u64 = 1 << 24;
/// Composing characters (NFC) leaves a third of their bytes at least, as where the Kelvin sign
/// becomes a `K`; a quarter is assumed.
const COMPOSED_SHRINK_MAX: usize = 4;

/// What each byte of a text counts for.
#[derive(Debug)]
pub(super) struct FewestTokens {
    /// By byte, in parts of [`WHOLE`].
    shares: [u64; 256],
}

impl FewestTokens {
    pub(super) fn new(source: &TokenizerSource) -> Self {
        let mut longest = longest(source);
        let mut spelled = spelled(source);
        if source.model != PIECES && source.compose == Some(true) {
            // Which bytes a character is composed to is not looked up: every byte is the worst one.
            let most = longest.iter().copied().max().unwrap_or(1);
            longest = [most.saturating_mul(COMPOSED_SHRINK_MAX); 256];
            spelled = [spelled.iter().all(|&known| known); 256];
        }
        let share = |byte: usize| if spelled[byte] { WHOLE / longest[byte] as u64 } else { 0 };
        Self { shares: std::array::from_fn(share) }
    }

    /// How many tokens `text` has at least.
    pub(super) fn of(&self, text: &str) -> Tokens {
        let sum: u64 = text.bytes().map(|byte| self.shares[usize::from(byte)]).sum();
        Tokens::new(u32::try_from(sum / WHOLE).unwrap_or(u32::MAX))
    }
}

/// By byte: the bytes of text that the longest token with this byte can cover; one at least.
fn longest(source: &TokenizerSource) -> [usize; 256] {
    let mut longest = [1; 256];
    let mut note = |held: &[u8], length: usize| {
        for &byte in held {
            let most: &mut usize = &mut longest[usize::from(byte)];
            *most = (*most).max(length);
        }
    };
    let mut bytes = Vec::new();
    for (id, text) in source.tokens.iter().enumerate() {
        if source.model == PIECES {
            note(text.as_bytes(), text.len());
            if text.contains(SPACE) {
                note(b" ", text.len());
            }
            continue;
        }
        bytes.clear();
        byte_level::push_bytes(text, &mut bytes);
        note(&bytes, bytes.len());
        if source.kind(id) != TokenKind::Ordinary {
            // It is found in text as it is written, too.
            note(text.as_bytes(), text.len());
        }
    }
    longest
}

/// By byte: whether it is sure to become a token, or a part of one. What the vocabulary cannot spell
/// is left out, or becomes one unknown token, however much of it there is.
fn spelled(source: &TokenizerSource) -> [bool; 256] {
    if source.model != PIECES {
        return named(source, |byte| byte_level::character(byte).to_string());
    }
    let bytes = named(source, byte_piece);
    if bytes.iter().all(|&known| known) {
        return bytes;
    }
    let mut characters = named(source, |byte| match byte {
        b' ' => SPACE.to_string(),
        _ => char::from(byte).to_string(),
    });
    // Beyond ASCII a byte is a part of a character.
    characters[0x80..].fill(false);
    characters
}

/// By byte: whether the vocabulary has a token of this name.
fn named(source: &TokenizerSource, name: impl Fn(u8) -> String) -> [bool; 256] {
    let names: BTreeMap<String, u8> = (0..=u8::MAX).map(|byte| (name(byte), byte)).collect();
    let mut found = [false; 256];
    for &byte in source.tokens.iter().filter_map(|text| names.get(text.as_str())) {
        found[usize::from(byte)] = true;
    }
    found
}

#[cfg(test)]
mod tests;
