//! Cost accounting: what an answer costs, and the break-even of asking two models.
//!
//! A price is in millionths of a dollar for a million tokens, which is the same number of
//! millionths of a millionth of a dollar for one: sums over requests stay integers. A pool has
//! prices, or a machine with a price by the hour and measured speeds, from which prices follow.
//! Rules: `docs/design/cascade.md#r10`.

mod cascade;
#[cfg(test)]
mod tests;

use core::fmt;
use core::ops::{Add, AddAssign};

use overdraft_units::{Micros, Tokens};

pub use self::cascade::{
    Bill, BreakEven, Feasibility, Pools, Reach, Shape, Verification, break_even, feasibility,
};

/// Millionths of a millionth of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u64);

/// Of these, a millionth of a dollar has a million.
const PICO_IN_MICRO: u64 = 1_000_000;

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many millionths of a millionth of a dollar.
    pub const fn picodollars(picodollars: u64) -> Self {
        Self(picodollars)
    }

    /// Millionths of a millionth of a dollar.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is left of it beside `other`; nothing where that is more.
    #[must_use]
    pub const fn beyond(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Money {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// In dollars, to a millionth.
impl fmt::Display for Money {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = self.0.saturating_add(PICO_IN_MICRO / 2) / PICO_IN_MICRO;
        write!(out, "${}.{:06}", micro / PICO_IN_MICRO, micro % PICO_IN_MICRO)
    }
}

/// Millionths of a dollar for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

/// A million dollars for a million tokens: what is dearer is mistyped.
const PRICE_MAX: u64 = 1_000_000_000_000;
/// Seconds in an hour.
const HOUR: u64 = 3_600;

impl Price {
    /// Nothing.
    pub const FREE: Self = Self(0);

    /// So many millionths of a dollar for a million tokens, at most a million dollars.
    pub const fn new(microdollars: u64) -> Self {
        Self(if microdollars > PRICE_MAX { PRICE_MAX } else { microdollars })
    }

    /// What a token comes to on a machine of that price by the hour that does so many in a second; the highest
    /// price where it does none.
    pub fn of_machine(microdollars_per_hour: u64, tokens_per_second: u64) -> Self {
        let pico = u128::from(microdollars_per_hour) * u128::from(PICO_IN_MICRO);
        let each = pico.checked_div(u128::from(HOUR) * u128::from(tokens_per_second));
        Self::new(each.map_or(PRICE_MAX, |each| u64::try_from(each).unwrap_or(PRICE_MAX)))
    }

    /// Millionths of a dollar for a million tokens.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// For so many tokens.
    pub const fn of(self, tokens: Tokens) -> Money {
        Money(self.0.saturating_mul(tokens.get() as u64))
    }
}

/// What a pool charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Prompt tokens that are computed.
    pub prompt: Price,
    /// Prompt tokens that are in the cache.
    pub cached: Price,
    /// Tokens of the answer.
    pub completion: Price,
}

impl Prices {
    /// Those of a machine, or of a group of them: dollars by the hour, in millionths, and how many tokens all its
    /// requests together have in a second. What is cached costs nothing.
    pub fn of_machine(microdollars_per_hour: u64, speed: Speed) -> Self {
        let price = |tokens| Price::of_machine(microdollars_per_hour, tokens);
        Self {
            prompt: price(speed.prompt),
            cached: Price::FREE,
            completion: price(speed.completion),
        }
    }

    /// What that usage costs.
    pub fn of(&self, usage: Usage) -> Money {
        let cached = usage.cached.min(usage.prompt);
        let computed = usage.prompt.checked_sub(cached).unwrap_or_default();
        self.prompt.of(computed) + self.cached.of(cached) + self.completion.of(usage.completion)
    }
}

/// Tokens in a second, measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// Of prompts.
    pub prompt: u64,
    /// Of answers.
    pub completion: u64,
}

impl Speed {
    /// How long that takes one after the other; nothing where a speed is not known.
    pub fn time(&self, prompt: Tokens, completion: Tokens) -> Option<Micros> {
        let micros =
            |tokens: Tokens, speed: u64| (u64::from(tokens.get()) * 1_000_000).checked_div(speed);
        let sum = micros(prompt, self.prompt)? + micros(completion, self.completion)?;
        Some(Micros::new(sum))
    }
}

/// What one call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All tokens of the prompt.
    pub prompt: Tokens,
    /// Those of them that were in the cache.
    pub cached: Tokens,
    /// Tokens of the answer.
    pub completion: Tokens,
}
