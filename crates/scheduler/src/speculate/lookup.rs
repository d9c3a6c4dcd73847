//! What followed the last time this was said?
//!
//! A drafter that needs no model: text that is copied, corrected or quoted says again what stands
//! before it. The last few tokens are looked for among those before them, and what followed there is
//! the guess. Where the guess reaches the end of what is known, the text repeats itself, and so does
//! the guess.

use alloc::vec::Vec;

use overdraft_units::TokenId;

/// Tokens looked back over at most.
pub const LOOKUP_SCAN_MAX: usize = 1 << 14;

/// How much must be equal before a guess is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Equal tokens at least; not zero.
    pub shortest: usize,
    /// Equal tokens that settle it; a longer match is not looked for.
    pub longest: usize,
}

impl Default for Lookup {
    fn default() -> Self {
        Self { shortest: 2, longest: 5 }
    }
}

impl Lookup {
    /// Up to `count` tokens that may follow `tokens`: what followed the longest earlier match of
    /// their end, the latest of equals. Nothing where no match is long enough.
    pub fn guess(self, tokens: &[TokenId], count: usize) -> Vec<TokenId> {
        let Some(after) = self.find(tokens).filter(|_| 0 < count) else { return Vec::new() };
        tokens[after..].iter().cycle().take(count).copied().collect()
    }

    /// Where the longest earlier match ends.
    fn find(self, tokens: &[TokenId]) -> Option<usize> {
        let (last, before) = tokens.split_last()?;
        let window = &before[before.len().saturating_sub(LOOKUP_SCAN_MAX)..];
        let offset = before.len() - window.len();
        let mut best = (self.shortest.saturating_sub(1), None);
        for (place, token) in window.iter().enumerate().rev() {
            if token != last {
                continue;
            }
            let end = offset + place + 1;
            let pairs = tokens[..end].iter().rev().zip(tokens.iter().rev());
            let equal = pairs.take(self.longest).take_while(|(a, b)| a == b).count();
            if best.0 < equal {
                best = (equal, Some(end));
            }
            if self.longest <= equal {
                break;
            }
        }
        best.1
    }
}
