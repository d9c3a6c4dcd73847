//! Deadlines: how long a first token, a pause and a whole answer may take before the worker counts as failed.
//!
//! A limit that is not set follows from what was measured of the worker ([`Prediction`]): the prompts before a request,
//! its own, and the longest answer that it may get. The rules, numbered, are in `docs/design/deadlines.md`.
//!
//! Invariant: a limit that is not set is never shorter than its least.

mod settings;
#[cfg(test)]
mod tests;

use overdraft_units::Micros;

pub use self::settings::{DeadlineSettings, Patience};

/// The least that a first token is given: a prompt of 1,500 tokens at [`PREFILL_ASSUMED`].
pub const FIRST_TOKEN_LEAST: Micros = Micros::new(60_000_000);

/// The least that a pause between two events is given.
pub const STALL_LEAST: Micros = Micros::new(15_000_000);

/// The least that a whole answer is given.
pub const TOTAL_LEAST: Micros = Micros::new(600_000_000);

/// The most that a limit comes to that is not set: a day.
pub const LIMIT_MAX: Micros = Micros::new(86_400_000_000);

/// Prompt tokens a second that a worker is given of which nothing was measured: a small model on two CPU cores.
pub const PREFILL_ASSUMED: u64 = 25;

/// A token of an answer at a worker of which nothing was measured.
pub const STEP_ASSUMED: Micros = Micros::new(250_000);

/// Tokens that an answer may get where neither the request nor the worker's cache bounds it.
pub const ANSWER_ASSUMED: u32 = 131_072;

/// Prompt tokens that an engine computes in one step at most, as engines are usually set.
pub const STEP_TOKENS: u64 = 8_192;

/// A measured time may turn out so many times as long.
const MARGIN: u64 = 4;

/// The slowest that was measured may be that much slower.
const MARGIN_SLOWEST: u64 = 2;

/// What a limit of time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// It is set.
    Set,
    /// It is the least.
    Least,
    /// What was measured of the worker.
    Measured,
    /// What is assumed of a worker that was not measured.
    Assumed,
}

impl Basis {
    /// As access records and explanations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Least => "least",
            Self::Measured => "measured",
            Self::Assumed => "assumed",
        }
    }
}

/// How long something may take, and why so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long.
    pub after: Micros,
    /// Why.
    pub basis: Basis,
}

impl Limit {
    /// What `patience` comes to, where `derived` is what the request needs.
    fn of(patience: Patience, least: Micros, derived: Self) -> Self {
        match patience {
            Patience::Fixed(after) => Self { after, basis: Basis::Set },
            Patience::Auto if derived.after <= least => Self { after: least, basis: Basis::Least },
            Patience::Auto => Self { after: derived.after.min(LIMIT_MAX), ..derived },
        }
    }
}

/// What a request is expected to take at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Until the prompts before it have been computed.
    pub queue: Micros,
    /// Until its own has been.
    pub prefill: Micros,
    /// Until enough answers have ended there, where it may have to wait for their places.
    pub places: Micros,
    /// What 99 of 100 first tokens took at most beyond what was expected; zero while that is not known.
    pub late: Micros,
    /// Its answer, if it is among the shortest of its kind.
    pub decode: Micros,
    /// The longest answer that it may get, at the slowest that the worker was seen to go.
    pub decode_longest: Micros,
    /// Whether the worker's pace was measured for prompts.
    pub prompts: Basis,
    /// Whether it was for answers.
    pub answers: Basis,
}

impl Prediction {
    /// What the first token may take.
    fn first_token(&self) -> Limit {
        let known = self.queue.get().saturating_add(self.prefill.get());
        // What is assumed is slow enough as it is.
        let margin = if self.prompts == Basis::Measured { MARGIN } else { 1 };
        let beside = self.places.get().saturating_add(self.late.get());
        let after =
            known.saturating_mul(margin).saturating_add(beside.saturating_mul(MARGIN_SLOWEST));
        Limit { after: Micros::new(after), basis: self.prompts }
    }

    /// All that is sure of it: the queue within a factor of two, the rest within a third.
    fn sure(&self) -> Micros {
        let own = self.prefill.get().saturating_add(self.decode.get());
        Micros::new(self.queue.get() / 2 + own / 4 * 3)
    }

    /// Until its end, as it is expected to be.
    pub const fn whole(&self) -> Micros {
        let prompts = self.queue.get().saturating_add(self.prefill.get());
        Micros::new(prompts.saturating_add(self.decode.get()))
    }

    /// Whether the answer will clearly not have ended in `left`. Only what was measured is that clear.
    pub fn misses(&self, left: Micros) -> bool {
        let is_measured = self.prompts == Basis::Measured && self.answers == Basis::Measured;
        is_measured && left < self.sure()
    }
}

/// The limits of one attempt at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From sending it to its first token, where that is seen.
    pub first_token: Limit,
    /// From sending it to its end.
    pub total: Limit,
}

impl Limits {
    /// Of a request of which that is expected.
    pub fn of(settings: DeadlineSettings, prediction: &Prediction) -> Self {
        let first = prediction.first_token();
        let first_token = Limit::of(settings.first_token, FIRST_TOKEN_LEAST, first);
        let longest = prediction.decode_longest.get().saturating_mul(MARGIN_SLOWEST);
        let after = Micros::new(first_token.after.get().saturating_add(longest));
        let total = Limit::of(settings.total, TOTAL_LEAST, Limit { after, ..answers(prediction) });
        // A total that is set bounds the first token, which is not.
        let is_bounded = settings.first_token == Patience::Auto && total.after < first_token.after;
        Self { first_token: if is_bounded { total } else { first_token }, total }
    }
}

const fn answers(prediction: &Prediction) -> Limit {
    Limit { after: Micros::ZERO, basis: prediction.answers }
}

/// For how long a stream may say nothing at a worker that has prompts of `prompts` to compute: an engine may compute
/// them in one step, and all answers stand still meanwhile.
pub fn stall(settings: DeadlineSettings, prompts: Micros) -> Limit {
    let after = Micros::new(prompts.get().saturating_mul(MARGIN));
    Limit::of(settings.stall, STALL_LEAST, Limit { after, basis: Basis::Measured })
}

/// For how long an engine that has work may count nothing before it is taken to be frozen, where its next step takes
/// `step`.
pub fn standstill(settings: DeadlineSettings, step: Micros) -> Limit {
    let after = Micros::new(step.get().saturating_mul(MARGIN));
    Limit::of(settings.first_token, FIRST_TOKEN_LEAST, Limit { after, basis: Basis::Measured })
}
