//! Text splitting for the token cache: where a text may be cut without changing its tokens.
//!
//! A cut is valid where no token can span it and neither side affects how the other is tokenised
//! (docs/design/tokenizing.md#r2). For words of bytes that is behind a letter of a script whose
//! letters every known pattern takes as long as they come, before a character that no pattern lets
//! follow within one word. For pieces with scores it is before a space, if no pair to merge has one
//! inside. **Invariant:** the answer depends on the two characters around the cut alone, so that
//! equal beginnings are cut at equal places.

use super::piece_spelling::SPACE;

/// Where the text of one vocabulary may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cuts {
    /// Behind a letter, before what ends its word; all patterns of [`super::pre`] allow it.
    BehindWords,
    /// Before a space that follows something else.
    BeforeSpaces,
    /// Nowhere.
    Nowhere,
}

impl Cuts {
    /// The first place at or after `from`, not the text's ends, where `text` may be cut.
    pub(super) fn find(self, text: &str, from: usize) -> Option<usize> {
        let is_cut = match self {
            Self::BehindWords => is_behind_word,
            Self::BeforeSpaces => is_before_space,
            Self::Nowhere => return None,
        };
        let from = text.ceil_char_boundary(from.min(text.len()));
        let mut before = text[..from].chars().next_back();
        for (offset, character) in text[from..].char_indices() {
            if before.is_some_and(|before| is_cut(before, character)) {
                return Some(from + offset);
            }
            before = Some(character);
        }
        None
    }
}

fn is_behind_word(before: char, after: char) -> bool {
    is_plain_letter(before) && ends_word(after)
}

/// Letters that every known pattern takes together with those that follow. They are letters by
/// Unicode's category and compose with no ASCII character, nor with the punctuation below.
const fn is_plain_letter(character: char) -> bool {
    matches!(
        character,
        'A'..='Z' | 'a'..='z' | 'А'..='я' | 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '一'..='龥' | '가'..='힣'
    )
}

/// What stands in no known pattern's word behind a letter. An apostrophe may: `'s` belongs to the word
/// in some.
const fn ends_word(character: char) -> bool {
    match character {
        '\'' => false,
        '，' | '。' | '！' | '？' | '：' | '；' | '、' => true,
        _ => character.is_ascii() && !character.is_ascii_alphabetic(),
    }
}

fn is_before_space(before: char, after: char) -> bool {
    after == ' ' && before != ' ' && before != SPACE
}

#[cfg(test)]
mod tests;
