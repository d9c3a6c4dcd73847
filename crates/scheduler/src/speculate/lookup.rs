//! Prompt lookup (n-gram) drafting: proposes the tokens that followed the same text before.
//!
//! This drafter needs no model: text that is copied, corrected or quoted repeats earlier text. It
//! searches the last few tokens among those before them and proposes the tokens that followed
//! there. Where the proposal reaches the end of the known tokens, the text is periodic, and the
//! proposal repeats.

use alloc::vec::Vec;

use overdraft_units::TokenId;

/// Maximum tokens searched backwards.
pub const LOOKUP_SCAN_MAX: usize = 1 << 14;

/// Length of the n-gram that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Minimum length of the match; not zero.
    pub shortest: usize,
    /// Maximum length of the match; a longer one is not searched for.
    pub longest: usize,
}

impl Default for Lookup {
    fn default() -> Self {
        Self { shortest: 2, longest: 5 }
    }
}

impl Lookup {
    /// Up to `count` tokens that may follow `tokens`: those after the longest earlier match of
    /// their end, the latest of equals. Empty where no match is long enough.
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
