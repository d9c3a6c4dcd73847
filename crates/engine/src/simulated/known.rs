//! What is known after the first tokens of a sequence: all that the next one depends on.
//!
//! An automaton that reads tokens from left to right. In a prompt it keeps a digest of what it read
//! and looks for `[answer:N]`; in an answer it counts down.

use overdraft_units::{TokenId, split_mix};

use super::FIRST_WORD;

/// Begins the wish for a length.
const MARK: &[u8] = b"[answer:";
/// Ends it.
const MARK_END: u8 = b']';

/// The state after some tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    digest: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In a prompt.
    Prompt {
        /// How much of the mark was read; all of it while a number follows.
        matched: u8,
        /// The number as far as it was read.
        number: u32,
        /// The length that was asked for last.
        asked: Option<u32>,
    },
    /// In an answer that has so many words left.
    Answer(u32),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Prompt { matched: 0, number: 0, asked: None }
    }
}

impl Known {
    /// The state after one more token. `length` says how many words answer what was asked and read.
    pub(super) fn after(self, token: TokenId, length: impl Fn(Option<u32>, u64) -> u32) -> Self {
        let digest = split_mix(self.digest ^ u64::from(token.0));
        let phase = if FIRST_WORD <= token {
            Phase::Answer(self.left(length).saturating_sub(1))
        } else {
            match (self.phase, u8::try_from(token.0)) {
                (Phase::Prompt { matched, number, asked }, Ok(byte)) => {
                    read(usize::from(matched), number, asked, byte)
                }
                (Phase::Prompt { asked, .. }, Err(_)) => {
                    Phase::Prompt { matched: 0, number: 0, asked }
                }
                // A new turn: what was asked for has been said.
                (Phase::Answer(_), _) => Phase::default(),
            }
        };
        Self { digest, phase }
    }

    /// Words that are still to be said.
    pub(super) fn left(self, length: impl Fn(Option<u32>, u64) -> u32) -> u32 {
        match self.phase {
            Phase::Prompt { asked, .. } => length(asked, self.digest),
            Phase::Answer(left) => left,
        }
    }
}

/// Looks for the mark and its number.
fn read(matched: usize, number: u32, asked: Option<u32>, byte: u8) -> Phase {
    let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    let begun = u8::from(byte == MARK[0]);
    if let Some(wanted) = MARK.get(matched) {
        let matched = if byte == *wanted { u8::try_from(matched + 1).unwrap_or(0) } else { begun };
        return Phase::Prompt { matched, number: 0, asked };
    }
    match digit {
        Some(digit) => Phase::Prompt {
            matched: u8::try_from(matched).unwrap_or(0),
            number: number.saturating_mul(10).saturating_add(digit),
            asked,
        },
        None if byte == MARK_END => Phase::Prompt { matched: 0, number: 0, asked: Some(number) },
        None => Phase::Prompt { matched: begun, number: 0, asked },
    }
}
