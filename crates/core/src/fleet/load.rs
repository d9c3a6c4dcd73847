//! Worker load: the last scraped metrics plus the gateway's own in-flight ledger.
//!
//! A scrape is a moment old; since then this gateway has sent more, and others may have too.
//! Reported load beyond our own attempts at that time counts as other gateways' (*foreign*) until
//! the next scrape; our own part always comes from the ledger. So nothing is counted twice, an
//! arrival counts at once (C4), and so does an end.

use overdraft_units::{BlockSize, Instant, Tokens};

/// The load that a worker reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scraped {
    /// When it was scraped.
    pub at: Instant,
    /// Requests being computed.
    pub running: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Share of the cache that requests hold, in thousandths.
    pub kv_use_permille: Option<u16>,
    /// Tokens its cache has room for.
    pub kv_capacity: Option<Tokens>,
    /// Tokens to a page of its cache.
    pub block_size: Option<BlockSize>,
    /// Requests that lost their cache to others since the worker started.
    pub preemptions: Option<u64>,
}

/// What other gateways have in flight on a worker, as they report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Requests.
    pub requests: u32,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Tokens of their prompts and of all that may be generated for them.
    pub tokens: u64,
}

const NOBODY: Share = Share { requests: 0, prompt_tokens: 0, tokens: 0 };

/// Its last word, and what has happened since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    scraped: Option<Scraped>,
    /// Tokens its cache has room for, by an earlier word of the same process.
    capacity: Option<Tokens>,
    foreign: u32,
    foreign_waiting: u32,
    /// Tokens of its cache that it held beyond those on our books.
    foreign_tokens: u64,
    /// What the others say, between two of its words.
    others: Share,
    /// Tokens it was sent since, less those whose request has ended since.
    since: u64,
}

impl Load {
    pub(super) const fn new() -> Self {
        Self {
            scraped: None,
            capacity: None,
            foreign: 0,
            foreign_waiting: 0,
            foreign_tokens: 0,
            others: NOBODY,
            since: 0,
        }
    }

    pub(super) const fn scraped(&self) -> Option<&Scraped> {
        self.scraped.as_ref()
    }

    /// Never less than either witness says: the worker tells late, and the others only of their own.
    pub(super) const fn foreign(&self) -> u32 {
        if self.foreign < self.others.requests { self.others.requests } else { self.foreign }
    }

    pub(super) const fn others(&self) -> Share {
        self.others
    }

    /// Takes in what other gateways have in flight there.
    pub(super) const fn note_others(&mut self, others: Share) {
        self.others = others;
    }

    pub(super) const fn since(&self) -> u64 {
        self.since
    }

    pub(super) const fn foreign_waiting(&self) -> u32 {
        self.foreign_waiting
    }

    /// Tokens its cache has room for; `None` while unknown.
    pub(super) fn kv_capacity(&self) -> Option<Tokens> {
        self.scraped.and_then(|scraped| scraped.kv_capacity).or(self.capacity)
    }

    /// Takes in its word; `ours` sequences of ours are in flight there, `prefilling` of them without
    /// a first token, and `used` tokens of its cache are on our books.
    pub(super) fn note(&mut self, scraped: Scraped, ours: u32, prefilling: u32, used: u64) {
        // A later page may lack what an earlier one told and what does not change.
        let before = self.scraped;
        let kv_capacity = scraped.kv_capacity.or(self.kv_capacity());
        let block_size = scraped.block_size.or(before.and_then(|before| before.block_size));
        self.foreign = scraped.running.saturating_add(scraped.waiting).saturating_sub(ours);
        self.foreign_waiting = scraped.waiting.saturating_sub(prefilling).min(self.foreign);
        self.since = 0;
        self.scraped = Some(Scraped { kv_capacity, block_size, ..scraped });
        self.foreign_tokens = self.reported().unwrap_or(0).saturating_sub(used);
    }

    /// Forgets its word: the process it came from may be gone. If it is not, its cache has the room that it had.
    pub(super) fn forget(&mut self) {
        *self = Self { others: self.others, capacity: self.kv_capacity(), ..Self::new() };
    }

    /// The process it came from is gone.
    pub(super) fn forget_process(&mut self) {
        *self = Self { others: self.others, ..Self::new() };
    }

    /// It was sent this many tokens.
    pub(super) const fn sent(&mut self, tokens: u64) {
        self.since = self.since.saturating_add(tokens);
    }

    /// A request that was sent since the last word has ended.
    pub(super) fn ended(&mut self, tokens: u64, started: Instant) {
        if self.scraped.is_none_or(|scraped| scraped.at <= started) {
            self.since = self.since.saturating_sub(tokens);
        }
    }

    /// Tokens of its cache that requests held when it last spoke; `None` while its capacity is unknown.
    fn reported(&self) -> Option<u64> {
        let scraped = self.scraped?;
        let capacity = u64::from(scraped.kv_capacity?.get());
        Some(capacity * u64::from(scraped.kv_use_permille.unwrap_or(0)) / 1_000)
    }

    /// Tokens of its cache that requests hold, `ours` of them on our books by now.
    pub(super) fn kv_used(&self, ours: u64) -> Option<u64> {
        self.kv_capacity()?;
        Some(self.foreign_tokens.max(self.others.prompt_tokens).saturating_add(ours))
    }
}
