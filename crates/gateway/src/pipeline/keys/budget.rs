//! Budgets: what a request is charged, and what it gets back.
//!
//! A request is charged its expected tokens before it is sent, and the difference to its actual
//! tokens is settled when it ends; one that was never served is refunded. The token buckets
//! themselves are in the store, shared with other gateways if there are any.

use std::sync::Arc;

pub use overdraft_store::{Budgets, Level, RetryAfter, Standing};
pub(crate) use overdraft_store::{Extent, Need};
use overdraft_units::Instant;

use crate::settings::Budget;

/// What a request was charged, until it is settled.
#[derive(Debug)]
pub(crate) struct Charge {
    budgets: Arc<Budgets>,
    key: u64,
    budget: Budget,
    prompt: u32,
    /// None once it has been settled.
    need: Option<Need>,
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
    /// Charges a request with a prompt of `prompt` tokens what it is expected to need.
    pub(crate) fn new(
        budgets: &Arc<Budgets>,
        key: u64,
        budget: Budget,
        prompt: u32,
        need: Need,
        now: Instant,
    ) -> Result<Self, RetryAfter> {
        budgets.try_spend(key, budget, need, now)?;
        Ok(Self { budgets: Arc::clone(budgets), key, budget, prompt, need: Some(need) })
    }

    /// Pays or takes back the difference.
    pub(crate) fn settle(mut self, bill: Bill, now: Instant) {
        let Some(need) = self.need.take() else { return };
        let used = match bill {
            Bill::Nothing => 0,
            Bill::Counted(tokens) => tokens,
            Bill::Streamed(answers) => u64::from(self.prompt).saturating_add(answers),
            Bill::AsExpected => u64::from(need.tokens),
        };
        self.budgets.settle(self.key, self.budget, need, used, now);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(need) = self.need {
            self.budgets.forsake(self.key, need);
        }
    }
}
