//! Streaming detokenizer: turns the tokens of a completion into text, whole characters at a time.
//!
//! A token may end within a UTF-8 character; its bytes are buffered until the character is
//! complete. **Invariant:** at most three bytes are buffered, and text that was yielded is final.

use std::sync::Arc;

use overdraft_units::TokenId;

use super::source::Vocabulary;
use crate::codec::{Detokenize, SpecialTokens};

/// Turns tokens into text, whole characters at a time.
#[derive(Debug)]
pub struct Detokenizer {
    vocabulary: Arc<Vocabulary>,
    special: SpecialTokens,
    /// The beginning of a character.
    pending: Vec<u8>,
}

impl Detokenizer {
    pub(super) const fn new(vocabulary: Arc<Vocabulary>, special: SpecialTokens) -> Self {
        Self { vocabulary, special, pending: Vec::new() }
    }
}

impl Detokenize for Detokenizer {
    fn push(&mut self, token: TokenId, text: &mut String) {
        self.pending.extend_from_slice(self.vocabulary.shown(token, self.special));
        let mut done = 0;
        for chunk in self.pending.utf8_chunks() {
            let broken = chunk.invalid();
            // Only at the very end can a broken character still become whole.
            let last = done + chunk.valid().len() + broken.len() == self.pending.len();
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            if last && may_become_whole(broken) {
                break;
            }
            if !broken.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += broken.len();
            }
        }
        self.pending.drain(..done);
    }

    fn finish(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

/// Whether more bytes can make a character of these.
fn may_become_whole(broken: &[u8]) -> bool {
    std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none())
}
