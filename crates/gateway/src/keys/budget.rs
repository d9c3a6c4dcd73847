//! What is a request charged, and what does it get back?
//!
//! A request pays before it goes anywhere, by what it is expected to need, and the difference to
//! what it did need is settled when it is over; one that was never served gets its tokens back.
//! The budgets themselves are the store's, shared with other gateways where there are any.

use std::sync::Arc;

pub use overdraft_store::{Budgets, Level, Limits as Budget, RetryAfter, Standing};
use overdraft_units::Instant;

/// What a request was charged, until it is settled.
#[derive(Debug)]
pub(crate) struct Charge {
    budgets: Arc<Budgets>,
    key: u64,
    budget: Budget,
    prompt: u32,
    tokens: u32,
}

/// What a request has needed in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bill {
    /// It was not served.
    Nothing,
    /// So many tokens, as the worker counted them.
    Counted(u64),
    /// So many tokens of answers were seen, and its prompt is as was estimated.
    Streamed(u64),
    /// It was served, and nobody counted.
    AsExpected,
}

impl Charge {
    /// Charges a request that is expected to have `prompt` tokens, and `tokens` with its answers.
    pub(crate) fn new(
        budgets: &Arc<Budgets>,
        (key, budget): (u64, Budget),
        (prompt, tokens): (u32, u32),
        now: Instant,
    ) -> Result<Self, RetryAfter> {
        budgets.try_spend(key, budget, tokens, now)?;
        Ok(Self { budgets: Arc::clone(budgets), key, budget, prompt, tokens })
    }

    /// Pays or takes back the difference.
    pub(crate) fn settle(self, bill: Bill, now: Instant) {
        let needed = match bill {
            Bill::Nothing => 0,
            Bill::Counted(tokens) => tokens,
            Bill::Streamed(answers) => u64::from(self.prompt).saturating_add(answers),
            Bill::AsExpected => u64::from(self.tokens),
        };
        let needed = i64::try_from(needed).unwrap_or(i64::MAX);
        let delta = needed.saturating_sub(i64::from(self.tokens));
        if delta != 0 {
            self.budgets.settle(self.key, self.budget, delta, now);
        }
    }
}
