//! Requests without a limit: what those in flight may still take from a budget.

use std::num::NonZeroU32;

use super::MINUTE_MICROS;

/// Tokens that an answer without a limit is taken to have before any has ended, unless half of a minute's worth is
/// less.
const UNLIMITED_FIRST: i128 = 8_192;

/// How much less the longest answer of late counts with each shorter one that follows: one part of so many.
const LONGEST_DECAY: i128 = 16;

/// Requests in flight that do not limit their answers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unlimited {
    pub(super) in_flight: i128,
    /// Tokens that they were charged.
    charged: i128,
    /// Tokens of the longest of late; none has ended where it is zero.
    longest: i128,
}

impl Unlimited {
    /// Parts of a unit beyond what they were charged that those in flight may take, and one more that is charged
    /// `tokens`.
    pub(super) fn exposure(&self, limit: NonZeroU32, tokens: u32) -> i128 {
        let first = UNLIMITED_FIRST.min(i128::from(limit.get()) / 2);
        let longest = if self.longest == 0 { first } else { self.longest };
        let all = (self.in_flight + 1) * longest;
        (all - self.charged - i128::from(tokens)).max(0) * MINUTE_MICROS
    }

    pub(super) const fn begun(&mut self, tokens: u32) {
        self.in_flight += 1;
        self.charged += tokens as i128;
    }

    pub(super) fn ended(&mut self, tokens: u32, used: Option<u64>) {
        self.in_flight = (self.in_flight - 1).max(0);
        self.charged = (self.charged - i128::from(tokens)).max(0);
        let Some(used) = used.map(i128::from).filter(|&used| 0 < used) else { return };
        let fallen = self.longest - (self.longest - used) / LONGEST_DECAY;
        self.longest = fallen.max(used);
    }
}
