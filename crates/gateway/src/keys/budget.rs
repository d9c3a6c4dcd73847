//! What may a key still spend?
//!
//! Each key has two buckets, of requests and of tokens, that hold a minute's worth and fill up
//! evenly. A request pays before it goes anywhere, by what it is expected to need, and the
//! difference to what it did need is settled when it is over; one that was never served gets its
//! tokens back. A budget can therefore go below zero, by one minute's worth at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_units::{Instant, Micros};

/// The length of a minute, and how many parts a unit has in a bucket: so much of a limit flows in
/// with each microsecond.
const MINUTE_MICROS: i128 = 60_000_000;

/// What a key may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Requests a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens a minute, of prompts and answers together.
    pub tokens_per_minute: Option<NonZeroU32>,
}

impl Budget {
    pub(crate) const fn is_unlimited(self) -> bool {
        self.requests_per_minute.is_none() && self.tokens_per_minute.is_none()
    }
}

/// Why a request cannot be paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    /// There will be enough requests after this time.
    Requests(Micros),
    /// There will be enough tokens after this time.
    Tokens(Micros),
    /// It needs more tokens than a minute brings.
    Never,
}

/// Keeps what keys have spent. Whoever implements it answers at once: no request waits for it.
pub trait Budgets: fmt::Debug + Send + Sync {
    /// Takes one request and so many tokens from the budget of the key of that number.
    ///
    /// # Errors
    /// When it can be tried again; nothing has been taken then.
    fn try_spend(
        &self,
        key: u64,
        budget: Budget,
        tokens: u32,
        now: Instant,
    ) -> Result<(), RetryAfter>;

    /// Takes so many tokens more, or gives them back where it is negative.
    fn settle(&self, key: u64, budget: Budget, tokens_delta: i64, now: Instant);

    /// What is left.
    fn standing(&self, key: u64, budget: Budget, now: Instant) -> Standing;

    /// Forgets all keys but these.
    fn retain(&self, keys: &BTreeSet<u64>);
}

/// How a key stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Of requests, where they are limited.
    pub requests: Option<Level>,
    /// Of tokens, where they are limited.
    pub tokens: Option<Level>,
}

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// What it holds at most.
    pub limit: u32,
    /// What it holds.
    pub remaining: u32,
    /// When it will be full.
    pub reset: Micros,
}

/// The budgets of one gateway on its own.
#[derive(Debug, Default)]
pub(crate) struct LocalBudgets {
    /// Those of keys that have spent something; as many as there are keys at most.
    purses: Mutex<BTreeMap<u64, Purse>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Purse {
    requests: Bucket,
    tokens: Bucket,
}

/// What is missing from a full bucket, in parts of a unit, and when that was so.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    missing: i128,
    at: Instant,
}

impl Bucket {
    /// Lets in what has flown since.
    fn fill(&mut self, limit: NonZeroU32, now: Instant) {
        let flown = i128::from(limit.get()) * i128::from(now.since(self.at).get());
        // A limit that was lowered leaves a bucket that was too large.
        let most = 2 * full(limit);
        self.missing = (self.missing - flown).clamp(0, most);
        self.at = now;
    }

    /// When it will hold `amount`; `None` where it does.
    fn wait(&self, limit: NonZeroU32, amount: u32) -> Option<Micros> {
        let over = self.missing + i128::from(amount) * MINUTE_MICROS - full(limit);
        (over > 0).then(|| time(over, limit))
    }

    /// Takes `amount`, or gives it back.
    fn take(&mut self, limit: NonZeroU32, amount: i64) {
        let missing = self.missing + i128::from(amount) * MINUTE_MICROS;
        self.missing = missing.clamp(0, 2 * full(limit));
    }

    fn level(&self, limit: NonZeroU32) -> Level {
        let remaining = (full(limit) - self.missing).max(0) / MINUTE_MICROS;
        Level {
            limit: limit.get(),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            reset: time(self.missing, limit),
        }
    }
}

/// What a full bucket holds, in parts.
fn full(limit: NonZeroU32) -> i128 {
    i128::from(limit.get()) * MINUTE_MICROS
}

/// How long that many parts take to flow in.
fn time(parts: i128, limit: NonZeroU32) -> Micros {
    let limit = i128::from(limit.get());
    let micros = (parts + limit - 1) / limit;
    Micros::new(u64::try_from(micros).unwrap_or(u64::MAX))
}

impl LocalBudgets {
    fn purses(&self) -> MutexGuard<'_, BTreeMap<u64, Purse>> {
        self.purses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budgets for LocalBudgets {
    fn try_spend(
        &self,
        key: u64,
        budget: Budget,
        tokens: u32,
        now: Instant,
    ) -> Result<(), RetryAfter> {
        let mut purses = self.purses();
        let purse = purses.entry(key).or_default();
        let (requests_max, tokens_max) = (budget.requests_per_minute, budget.tokens_per_minute);
        if let Some(limit) = requests_max {
            purse.requests.fill(limit, now);
            if let Some(wait) = purse.requests.wait(limit, 1) {
                return Err(RetryAfter::Requests(wait));
            }
        }
        if let Some(limit) = tokens_max {
            purse.tokens.fill(limit, now);
            if limit.get() < tokens {
                return Err(RetryAfter::Never);
            }
            if let Some(wait) = purse.tokens.wait(limit, tokens) {
                return Err(RetryAfter::Tokens(wait));
            }
            purse.tokens.take(limit, i64::from(tokens));
        }
        if let Some(limit) = requests_max {
            purse.requests.take(limit, 1);
        }
        Ok(())
    }

    fn settle(&self, key: u64, budget: Budget, tokens_delta: i64, now: Instant) {
        let Some(limit) = budget.tokens_per_minute else { return };
        if let Some(purse) = self.purses().get_mut(&key) {
            purse.tokens.fill(limit, now);
            purse.tokens.take(limit, tokens_delta);
        }
    }

    fn standing(&self, key: u64, budget: Budget, now: Instant) -> Standing {
        let mut purse = self.purses().get(&key).copied().unwrap_or_default();
        let level = |bucket: &mut Bucket, limit: Option<NonZeroU32>| {
            let limit = limit?;
            bucket.fill(limit, now);
            Some(bucket.level(limit))
        };
        Standing {
            requests: level(&mut purse.requests, budget.requests_per_minute),
            tokens: level(&mut purse.tokens, budget.tokens_per_minute),
        }
    }

    fn retain(&self, keys: &BTreeSet<u64>) {
        self.purses().retain(|key, _| keys.contains(key));
    }
}

/// What a request was charged, until it is settled.
#[derive(Debug)]
pub(crate) struct Charge {
    budgets: Arc<dyn Budgets>,
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
        budgets: &Arc<dyn Budgets>,
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
