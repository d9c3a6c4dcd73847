//! What must hold of the cascade, rule by rule.

mod evidence;
mod journal;
mod judging;
mod labels;
mod lasting;
mod others;
mod path;
mod payback;
mod protocol;
mod release;
mod scorer;
mod switch;
mod threshold;
mod verify;

use overdraft_units::{Ratio, Tokens};

use super::{Evidence, LogProb, Observation, Traits};
use crate::hash_mix::mix;

/// Draws that a seed decides.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    seed: u64,
    drawn: u64,
}

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// Any number.
    pub(super) const fn any(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn)
    }

    /// A number below another.
    pub(super) fn below(&mut self, below: u32) -> u32 {
        u32::try_from(self.any() % u64::from(below)).expect("below what is not more")
    }

    /// An even draw between nothing and certainty.
    pub(super) fn chance(&mut self) -> Ratio {
        Ratio::millionths(self.below(1_000_001))
    }

    pub(super) fn happens(&mut self, chance: Ratio) -> bool {
        chance.happens(self.any())
    }
}

/// Traits of no request in particular.
pub(super) fn traits() -> Traits {
    Traits { tenant: 1, route: 2, prompt: Tokens::new(100), ..Traits::default() }
}

/// A token of that log probability, in thousandths of a nat, and nothing more known.
pub(super) fn token(thousandths: i64) -> Observation {
    let logprob = LogProb::micronats(thousandths * 1_000);
    Observation { logprob, margin: None, entropy: None, digit: false }
}

/// A draft of tokens whose surprise is drawn around so many thousandths of a nat.
pub(super) fn draft(surprise: u32, tokens: u32, dice: &mut Dice) -> Evidence {
    let mut evidence = Evidence::new(traits(), Tokens::new(8));
    for _ in 0..tokens {
        evidence.observe(token(-i64::from(dice.below(2 * surprise + 1))));
    }
    evidence
}
