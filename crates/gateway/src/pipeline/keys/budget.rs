//! Budgets: what a request is charged, and what it gets back.
//!
//! A request is charged its expected tokens before it is sent, and the difference to its actual
//! tokens is settled when it ends; one that was never served is refunded. The token buckets
//! themselves are in the store, shared with other gateways if there are any.

use std::sync::Arc;

pub use overdraft_store::{Budgets, Level, RetryAfter, Standing};
use overdraft_units::Instant;

use crate::settings::Budget;

/// What a request is expected to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Tokens of its prompt.
    pub(crate) prompt: u32,
    /// Tokens of its prompt and its answers.
    pub(crate) tokens: u32,
}

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
    /// Charges a request what it is expected to need.
    pub(crate) fn new(
        budgets: &Arc<Budgets>,
        key: u64,
        budget: Budget,
        need: Need,
        now: Instant,
    ) -> Result<Self, RetryAfter> {
        let Need { prompt, tokens } = need;
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
