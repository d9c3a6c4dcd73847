//! Distributed rate limiting: token buckets per key, shared between gateways over Redis.
//!
//! Each key has two token buckets, one for requests and one for tokens, that hold a minute's worth
//! and refill evenly. A gateway spends locally, at once; its spending goes to the shared bucket
//! with the next exchange, and the shared deficit comes back. Between two exchanges each gateway
//! admits its part of the refill. So all gateways together may exceed the limit for the length of
//! one exchange, and that is paid back: over time the limit holds exactly. Without Redis each
//! gateway has a bucket of its own with the limit divided by the last known number of gateways.
//! What flows back there is not told later: the parts of all gateways together are the limit.
//!
//! A debit whose answer did not come may have been carried out or not. It is told again under the
//! same number, less what has flowed back of it: the shared bucket takes each number of a gateway
//! once. Nothing else is told until it is answered, or dropped for its age.
//!
//! Nobody knows how long an answer gets whose request does not limit it. Such requests are bounded
//! together: what those in flight may still come to, each as long as the longest of late, fits into what is
//! left and one minute's worth beyond. So an overrun is bounded, and it is paid back in full.

#[cfg(test)]
mod tests;
mod unlimited;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_units::{Instant, Micros};

use self::unlimited::Unlimited;
use crate::gateway_name;

/// Microseconds in a minute, and parts per unit in a bucket.
const MINUTE_MICROS: i128 = 60_000_000;

/// Parts per thousandth of a unit, the unit on the wire.
const THOUSANDTH: i128 = MINUTE_MICROS / 1_000;

/// Minutes' worth that a bucket may be in debt: a worker that counts wrong must not lock a key out for days.
pub(crate) const DEBT_MINUTES_MAX: i128 = 60;

/// How long Redis remembers the number of a gateway's last debit, from when it is carried out.
pub(crate) const DEBIT_LIFE: Micros = Micros::new(3_600_000_000);

/// How much sooner, from when it was first told, a debit without an answer is dropped: a command may be carried out
/// late, and must find its number. A bucket owes an hour at most, so all but this much would have flowed back.
const DEBIT_MARGIN: Micros = Micros::new(60_000_000);

/// When a request may be tried again that waits for answers whose ends nobody knows.
const UNLIMITED_RETRY: Micros = Micros::new(1_000_000);

/// Time since the last exchange after which a gateway considers itself cut off.
const EXCHANGE_LIFE: Micros = Micros::new(2_000_000);

/// Maximum keys with buckets; the one that has been idle for longest is evicted first.
const KEYS_MAX: usize = 65_536;

/// Maximum buckets in one exchange; the others follow in the next.
pub(crate) const EXCHANGED_MAX: usize = 512;

/// What a key may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens a minute, of prompts and answers together.
    pub tokens_per_minute: Option<NonZeroU32>,
}

impl Limits {
    /// Whether nothing is limited.
    pub const fn is_unlimited(self) -> bool {
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
    /// As many requests without a limit are in flight as the budget covers; this is a guess.
    Unlimited(Micros),
    /// It needs more tokens than a minute brings.
    Never,
}

/// What a request is expected to take from a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Requests: one, or none where it was paid for before.
    pub requests: u32,
    /// Tokens of its prompt and its answers.
    pub tokens: u32,
    /// Whether the request limits its answers.
    pub extent: Extent,
}

/// Whether a request limits its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// It needs no more tokens than it is expected to.
    Limited,
    /// Its answers end where they end.
    Unlimited,
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

/// What keys have spent. Answers at once.
#[derive(Debug)]
pub struct Budgets {
    book: Mutex<Book>,
    /// Who tells; the same for as long as the numbers of its debits grow.
    gateway: String,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { book: Mutex::default(), gateway: gateway_name::draw() }
    }
}

#[derive(Debug, Default)]
struct Book {
    purses: BTreeMap<u64, Purse>,
    gateways: i128,
    exchanged: Option<Instant>,
    /// Where the next exchange begins.
    turn: u64,
    /// Debits that were told.
    debits: u64,
    /// The last of them, until it is answered.
    unanswered: Option<Debit>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Purse {
    limits: Limits,
    requests: Bucket,
    tokens: Bucket,
    unlimited: Unlimited,
    touched: Instant,
}

/// What is missing from a full bucket, in parts of a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    missing: i128,
    at: Instant,
    /// Spent here, not yet told and not flowed back; below zero where more was given back.
    untold: i128,
}

/// What a gateway has of a bucket.
#[derive(Clone, Copy, Debug)]
struct Portion {
    /// Gateways that what flows in is divided by.
    inflow: i128,
    /// Gateways that what fits is divided by: one where all go by the same bucket.
    room: i128,
}

impl Bucket {
    fn fill(&mut self, limit: NonZeroU32, portion: Portion, now: Instant) {
        let flown = i128::from(limit.get()) * i128::from(now.since(self.at).get());
        self.missing = (self.missing - flown / portion.inflow).max(0);
        // What has flowed back is not owed to others either. What was given back, below zero, stays.
        self.untold = self.untold.min(self.missing);
        self.at = now;
    }

    /// Thousandths of a unit that were spent here and not yet told.
    const fn spent(&self) -> i128 {
        self.untold / THOUSANDTH
    }

    /// When it will hold `amount`, if it does not. Whatever is asked fits at least a full bucket.
    fn wait(&self, limit: NonZeroU32, portion: Portion, amount: u32) -> Option<Micros> {
        let room = full(limit) / portion.room;
        let asked = (i128::from(amount) * MINUTE_MICROS).min(room);
        let over = self.missing + asked - room;
        (0 < over).then(|| time(over.saturating_mul(portion.inflow), limit))
    }

    fn take(&mut self, limit: NonZeroU32, amount: i64) {
        let parts = i128::from(amount) * MINUTE_MICROS;
        let most = DEBT_MINUTES_MAX * full(limit);
        self.missing = (self.missing + parts).clamp(0, most);
        self.untold = (self.untold + parts).clamp(-most, most);
    }

    fn level(&self, limit: NonZeroU32, portion: Portion) -> Level {
        let room = full(limit) / portion.room;
        let remaining = (room - self.missing).max(0) / MINUTE_MICROS;
        Level {
            limit: limit.get(),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            reset: time(self.missing.saturating_mul(portion.inflow), limit),
        }
    }
}

fn full(limit: NonZeroU32) -> i128 {
    i128::from(limit.get()) * MINUTE_MICROS
}

fn time(parts: i128, limit: NonZeroU32) -> Micros {
    let limit = i128::from(limit.get());
    Micros::new(u64::try_from((parts + limit - 1) / limit).unwrap_or(u64::MAX))
}

/// One bucket in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) key: u64,
    pub(crate) kind: Kind,
    pub(crate) limit: NonZeroU32,
    /// Thousandths of a unit.
    pub(crate) spent: i128,
}

/// What is told in one exchange, by number. Told again, it is less by what has flowed back since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debit {
    pub(crate) number: u64,
    pub(crate) due: Vec<Due>,
    first_told: Instant,
}

/// Which of a key's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Requests,
    Tokens,
}

impl Kind {
    pub(crate) const fn letter(self) -> char {
        match self {
            Self::Requests => 'r',
            Self::Tokens => 't',
        }
    }
}

impl Budgets {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one request and what it needs from the budget of the key of that number. Whoever may spend settles
    /// later.
    ///
    /// # Errors
    /// When it can be tried again; nothing has been taken then.
    pub fn try_spend(
        &self,
        key: u64,
        limits: Limits,
        need: Need,
        now: Instant,
    ) -> Result<(), RetryAfter> {
        let Need { requests, tokens, extent } = need;
        let mut book = self.book();
        let portion = book.portion(now);
        let purse = book.purse(key, limits, now);
        if let Some(limit) = limits.requests_per_minute {
            purse.requests.fill(limit, portion, now);
            if 0 < requests
                && let Some(wait) = purse.requests.wait(limit, portion, requests)
            {
                return Err(RetryAfter::Requests(wait));
            }
        }
        if let Some(limit) = limits.tokens_per_minute {
            purse.tokens.fill(limit, portion, now);
            if limit.get() < tokens {
                return Err(RetryAfter::Never);
            }
            if let Some(wait) = purse.tokens.wait(limit, portion, tokens) {
                return Err(RetryAfter::Tokens(wait));
            }
            let unlimited = &mut purse.unlimited;
            if extent == Extent::Unlimited {
                let exposed = purse.tokens.missing + unlimited.exposure(limit, tokens);
                // One alone has to be let through: how long it gets nobody knows.
                let beyond = full(limit) / portion.room + full(limit) / portion.inflow;
                if 0 < unlimited.in_flight && beyond < exposed {
                    return Err(RetryAfter::Unlimited(UNLIMITED_RETRY));
                }
                unlimited.begun(tokens);
            }
            purse.tokens.take(limit, i64::from(tokens));
        }
        if let Some(limit) = limits.requests_per_minute {
            purse.requests.take(limit, i64::from(requests));
        }
        Ok(())
    }

    /// A request that was charged `need` has ended and used so many tokens: takes the difference, or gives it back.
    pub fn settle(&self, key: u64, limits: Limits, need: Need, used: u64, now: Instant) {
        let Some(limit) = limits.tokens_per_minute else { return };
        let mut book = self.book();
        let portion = book.portion(now);
        if let Some(purse) = book.purses.get_mut(&key) {
            let delta = i64::try_from(used).unwrap_or(i64::MAX) - i64::from(need.tokens);
            purse.tokens.fill(limit, portion, now);
            purse.tokens.take(limit, delta);
            if need.extent == Extent::Unlimited {
                purse.unlimited.ended(need.tokens, Some(used));
            }
        }
    }

    /// A request that was charged `need` is gone, and nobody knows what it used.
    pub fn forsake(&self, key: u64, need: Need) {
        if let Some(purse) = self.book().purses.get_mut(&key)
            && need.extent == Extent::Unlimited
        {
            purse.unlimited.ended(need.tokens, None);
        }
    }

    /// What is left.
    pub fn standing(&self, key: u64, limits: Limits, now: Instant) -> Standing {
        let book = self.book();
        let portion = book.portion(now);
        let purse = book.purses.get(&key).copied().unwrap_or_default();
        let level = |mut bucket: Bucket, limit: Option<NonZeroU32>| {
            let limit = limit?;
            bucket.fill(limit, portion, now);
            Some(bucket.level(limit, portion))
        };
        Standing {
            requests: level(purse.requests, limits.requests_per_minute),
            tokens: level(purse.tokens, limits.tokens_per_minute),
        }
    }

    /// Forgets all keys but these.
    pub fn retain(&self, keys: &BTreeSet<u64>) {
        self.book().purses.retain(|key, _| keys.contains(key));
    }

    /// As the shared buckets know this gateway.
    pub(crate) fn gateway(&self) -> &str {
        &self.gateway
    }

    /// What is to be told now: once more what was not answered, or else what was spent since from the
    /// buckets whose turn it is.
    pub(crate) fn debit(&self, now: Instant) -> Debit {
        let mut book = self.book();
        if let Some(repeated) = book.repeated(now) {
            return repeated;
        }
        let due = book.due(now);
        if due.is_empty() {
            return Debit::default();
        }
        for one in &due {
            if let Some(bucket) = book.bucket(one) {
                bucket.untold -= one.spent * THOUSANDTH;
            }
        }
        book.debits += 1;
        let debit = Debit { number: book.debits, due, first_told: now };
        book.unanswered = Some(debit.clone());
        debit
    }

    /// What was told is in the shared buckets now, and so much is missing there, in thousandths.
    pub(crate) fn exchanged(&self, told: &Debit, missing: &[i128], now: Instant) {
        let mut book = self.book();
        book.exchanged = Some(now);
        // The answer to an earlier debit knows nothing of what was told since.
        if book.unanswered.take_if(|unanswered| unanswered.number == told.number).is_none() {
            return;
        }
        for (due, missing) in told.due.iter().zip(missing) {
            let Some(bucket) = book.bucket(due) else { continue };
            bucket.missing = (missing * THOUSANDTH + bucket.untold).max(0);
            bucket.at = now;
        }
    }

    /// So many gateways share.
    pub(crate) fn note_gateways(&self, gateways: usize) {
        self.book().gateways = i128::try_from(gateways).unwrap_or(1);
    }
}

impl Book {
    /// The debit without an answer, less what has flowed back of it; none once it is too old to be told again.
    fn repeated(&mut self, now: Instant) -> Option<Debit> {
        let mut debit = self.unanswered.take()?;
        if DEBIT_LIFE <= now.since(debit.first_told) + DEBIT_MARGIN {
            return None;
        }
        let portion = self.portion(now);
        for due in &mut debit.due {
            let Some(bucket) = self.bucket(due) else { continue };
            bucket.fill(due.limit, portion, now);
            due.spent = due.spent.min((bucket.missing - bucket.untold) / THOUSANDTH);
        }
        self.unanswered = Some(debit.clone());
        Some(debit)
    }

    /// The buckets whose turn it is to be exchanged, with what was spent from them since and has not flowed back.
    fn due(&mut self, now: Instant) -> Vec<Due> {
        let portion = self.portion(now);
        let recent = |purse: &Purse| {
            let busy = purse.requests.spent() != 0 || purse.tokens.spent() != 0;
            busy || now.since(purse.touched) < EXCHANGE_LIFE
        };
        let mut due = Vec::new();
        let mut next = 0;
        for (&key, purse) in self.purses.range_mut(self.turn..).filter(|(_, purse)| recent(purse)) {
            if EXCHANGED_MAX - 1 <= due.len() {
                next = key;
                break;
            }
            let sides = [
                (Kind::Requests, purse.limits.requests_per_minute, &mut purse.requests),
                (Kind::Tokens, purse.limits.tokens_per_minute, &mut purse.tokens),
            ];
            for (kind, limit, bucket) in sides {
                let Some(limit) = limit else { continue };
                bucket.fill(limit, portion, now);
                due.push(Due { key, kind, limit, spent: bucket.spent() });
            }
        }
        self.turn = next;
        due
    }

    fn bucket(&mut self, due: &Due) -> Option<&mut Bucket> {
        let purse = self.purses.get_mut(&due.key)?;
        Some(match due.kind {
            Kind::Requests => &mut purse.requests,
            Kind::Tokens => &mut purse.tokens,
        })
    }

    fn portion(&self, now: Instant) -> Portion {
        let gateways = self.gateways.max(1);
        let connected = self.exchanged.is_some_and(|at| now.since(at) < EXCHANGE_LIFE);
        Portion { inflow: gateways, room: if connected { 1 } else { gateways } }
    }

    fn purse(&mut self, key: u64, limits: Limits, now: Instant) -> &mut Purse {
        if KEYS_MAX <= self.purses.len() && !self.purses.contains_key(&key) {
            let owes = |purse: &Purse| 0 < purse.requests.missing.max(purse.tokens.missing);
            let idlest = self.purses.iter().min_by_key(|(_, purse)| (owes(purse), purse.touched));
            if let Some(idlest) = idlest.map(|(&key, _)| key) {
                self.purses.remove(&idlest);
            }
        }
        let purse = self.purses.entry(key).or_default();
        purse.limits = limits;
        purse.touched = now;
        purse
    }
}
