//! Text of a prompt piece: equal names give equal words.
//!
//! Words are short and common, one token or little more in most vocabularies. How many tokens a
//! word really takes differs by tokenizer, so the sender of text measures it and records it in a
//! [`Wording`].

use overdraft_units::split_mix;

use super::Piece;
use crate::float_conversion::{float, whole};

/// Words that most vocabularies have as a token.
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by",
    "on", "not", "he", "this", "are", "or", "his", "from", "at", "which", "but", "have", "an",
    "had", "they", "you", "were", "their", "one", "all", "we", "can", "her", "has", "there",
    "been", "if", "more", "when", "will", "would", "who", "so", "no", "out", "up", "into", "do",
    "any", "your", "what", "only", "them", "time", "some", "new", "two", "may", "then", "first",
];

/// How many words make a token's worth of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wording {
    /// Tokens that a word takes on average, with the space before it; above zero.
    pub tokens_per_word: f64,
}

impl Default for Wording {
    /// A token a word.
    fn default() -> Self {
        Self { tokens_per_word: 1.0 }
    }
}

impl Wording {
    /// Appends the text of a piece.
    pub fn write(self, piece: Piece, text: &mut String) {
        let count = whole(float(u64::from(piece.tokens.get())) / self.tokens_per_word).max(1);
        push(piece.content, count, text);
    }
}

/// So many words that a name stands for.
pub fn words(content: u64, count: u64) -> String {
    let mut text = String::new();
    push(content, count, &mut text);
    text
}

fn push(content: u64, count: u64, text: &mut String) {
    let mut bits = 0;
    for number in 0..count {
        // Ten words of six bits out of each number.
        if number % 10 == 0 {
            bits = split_mix(content ^ split_mix(number));
        }
        let word = WORDS[usize::try_from(bits & 63).unwrap_or(0)];
        bits >>= 6;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
}
