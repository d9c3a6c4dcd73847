//! Prefix index: which worker's KV cache holds which prefix, for cache-aware routing.
//!
//! A prompt is a [`PrefixChain`] of keys, one per chunk. A [`PrefixIndex`] maps every key to the
//! workers that hold it, and one [`PrefixIndex::lookup`] gives the length of the cached prefix at
//! all workers at once. It has two sources: the blocks that a worker *reported* ([`Event`]), and
//! the prompts that we *routed* to it, in an LRU of the worker's capacity
//! ([`PrefixIndex::record_routed`]) that is corrected by the cached tokens its answers report
//! ([`PrefixIndex::record_hint`]). [`Knowledge`] says on which of the two a worker's matches rest.
//!
//! The rules are in `docs/design/prefix.md`.
//!
//! **Invariant:** memory has a bound that is set at the start ([`PrefixLimits`]); equal events give
//! equal answers; no event takes time that grows with the number of keys held.

mod agreement;
mod chain;
mod estimated_cache;
mod feed;
mod groups;
mod holders;
mod lookup;
mod pending_insertions;
mod reported_blocks;
mod slot_allocation;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod two_choice_table;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use overdraft_units::Instant;

use self::agreement::Agreement;
pub use self::agreement::{Comparison, SAMPLES_MAX, Verdict};
pub use self::chain::{Chunking, PrefixChain, PrefixKey, digest_of, salt_of, salt_with_adapter};
pub use self::estimated_cache::{
    CAPACITY_UNKNOWN, GENERATIONS_MAX, HINT_SETTLE, Hint, PENDING_SPAN, Receipt,
};
pub use self::feed::{
    BlockEvent, BlockName, BlockSizeMismatch, EventFeed, Medium, NAMES_MAX_DEFAULT, Skipped,
    StoredBlocks,
};
pub use self::groups::{GROUPS_MAX, LayerGroup};
use self::holders::Holders;
pub use self::lookup::Matches;
use self::pending_insertions::Announced;
pub use self::pending_insertions::{ANNOUNCED_MAX, Announcement};
pub use self::reported_blocks::Event;
use self::slot_allocation::{SlotId, Slots};
use self::sweep::Remains;
pub use self::sweep::{CLEAR_STEP, SWEEP_STEP};
use self::table::{EntryId, Table};
use crate::fleet::WorkerId;

/// A number of chunks: pages of a worker's cache, or pieces of text of about their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunks(u32);

impl Chunks {
    /// None.
    pub const ZERO: Self = Self(0);

    /// Wraps a raw count.
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The raw count.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// A count of things in memory; four billion of them is all.
    fn of(count: usize) -> Self {
        Self(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

/// How large an index may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLimits {
    /// Most distinct keys; each takes up to 40 bytes, however many workers hold it (R6).
    pub keys_max: u32,
}

impl Default for PrefixLimits {
    /// A million keys: 16 million tokens in pages of 16, in about 40 MB.
    fn default() -> Self {
        Self { keys_max: 1 << 20 }
    }
}

/// How sure the matches of a worker are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The worker reports, no report was missed, and its answers do not contradict them: matches are
    /// what it holds.
    Exact,
    /// It reports, and its answers say otherwise (`agreement.rs`).
    Disputed {
        /// How much of what its answers could have confirmed they did confirm lately.
        trust_permille: u16,
    },
    /// It reports, but some reports were missed: what they say it holds it does hold, the rest is
    /// estimated.
    Stale,
    /// It does not report; matches are what it should hold.
    Estimated {
        /// How much of what its answers could have confirmed they did confirm lately.
        trust_permille: u16,
    },
}

/// What an index takes, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of memory held, allowances for growth included.
    pub bytes: usize,
    /// Distinct keys.
    pub keys: usize,
    /// Pairs of a key and a source that says a worker holds it.
    pub held: u64,
}

/// Which worker holds which prefix.
#[derive(Debug)]
pub struct PrefixIndex {
    limits: PrefixLimits,
    table: Table,
    holders: Holders,
    slots: Slots,
    /// By place in the fleet.
    workers: Vec<Record>,
    /// What generations left behind, first to be cleared first.
    remains: VecDeque<Remains>,
    /// The entries of the chain that is being recorded; empty in between.
    places: Vec<EntryId>,
    announced: Announced,
    /// Workers that report several groups of layers.
    grouped: Vec<WorkerId>,
}

/// What is known of one worker.
#[derive(Debug)]
struct Record {
    feed: Feed,
    /// By group of layers; most engines have one.
    reported: Vec<Option<SlotId>>,
    /// What we routed, oldest first.
    generations: VecDeque<Generation>,
    /// Number of the newest generation ever; they are numbered without gaps.
    sequence: u32,
    /// Chunks that entered in the newest generation, rather than moving there from an older one.
    fresh: u32,
    /// Chunks in all generations.
    routed: u32,
    capacity: Chunks,
    trust_permille: u16,
    agreement: Agreement,
}

/// Whether a worker reports what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feed {
    Never,
    Complete,
    Broken,
}

/// A span of our own routing history: chunks that were last used in it.
#[derive(Debug)]
struct Generation {
    slot: SlotId,
    sequence: u32,
    began: Instant,
    /// The last chunk of each chain that entered, or of the part of it that did. All that stands in
    /// the generation stands on the way from one of them to its root.
    tails: Vec<EntryId>,
}

impl PrefixIndex {
    /// An index that knows nothing.
    pub fn new(limits: PrefixLimits) -> Self {
        Self {
            limits,
            table: Table::new(limits.keys_max),
            holders: Holders::default(),
            slots: Slots::default(),
            workers: Vec::new(),
            remains: VecDeque::new(),
            places: Vec::new(),
            announced: Announced::default(),
            grouped: Vec::new(),
        }
    }

    /// How sure the matches of `worker` are.
    pub fn knowledge(&self, worker: WorkerId) -> Knowledge {
        let (feed, trust_permille, verdict) = match self.workers.get(worker.index()) {
            Some(record) => (record.feed, record.trust_permille, record.agreement.verdict()),
            None => (Feed::Never, estimated_cache::TRUST_FIRST, Verdict::Untested),
        };
        match feed {
            Feed::Complete if verdict == Verdict::Refuted => Knowledge::Disputed { trust_permille },
            Feed::Complete => Knowledge::Exact,
            Feed::Broken => Knowledge::Stale,
            Feed::Never => Knowledge::Estimated { trust_permille },
        }
    }

    /// What the answers of `worker` say of its reports.
    pub fn verdict(&self, worker: WorkerId) -> Verdict {
        let record = self.workers.get(worker.index());
        record.map_or(Verdict::Untested, |record| record.agreement.verdict())
    }

    /// Whether a prediction from the reports of `worker` should be compared with its answer: each is
    /// while few have been.
    pub fn wants_comparison(&self, worker: WorkerId) -> bool {
        let record = self.workers.get(worker.index());
        record.is_some_and(|record| record.feed == Feed::Complete && record.agreement.is_young())
    }

    /// Takes in a comparison of what `worker` had reported with what its answer said.
    pub fn compared(&mut self, worker: WorkerId, comparison: &Comparison) {
        let Some(agrees) = comparison.agrees() else { return };
        let predicted = u64::from(comparison.predicted_tokens().get());
        if let Some(confirmed) = (u64::from(comparison.cached.get()) * 1_000).checked_div(predicted)
        {
            self.learn_trust(worker, confirmed);
        }
        self.record(worker).agreement.note(agrees);
    }

    /// Chunks that `worker` reported and holds still.
    pub fn reported(&self, worker: WorkerId) -> Chunks {
        self.workers.get(worker.index()).map_or(Chunks::ZERO, |record| self.held_of(record))
    }

    /// Chunks that we routed to `worker` and that it should hold still.
    pub fn routed(&self, worker: WorkerId) -> Chunks {
        self.workers.get(worker.index()).map_or(Chunks::ZERO, |record| Chunks(record.routed))
    }

    /// Both at once, for who asks it of every worker.
    pub(crate) fn held(&self, worker: WorkerId) -> (Chunks, Chunks) {
        let Some(record) = self.workers.get(worker.index()) else {
            return (Chunks::ZERO, Chunks::ZERO);
        };
        (self.held_of(record), Chunks(record.routed))
    }

    /// What the index takes.
    pub fn memory(&self) -> Memory {
        let records = self.workers.iter().map(|record| {
            let slots = record.reported.iter().flatten();
            let reported: u64 = slots.map(|slot| u64::from(self.slots.at(*slot).held)).sum();
            let generations = record.generations.capacity() * size_of::<Generation>();
            let tails = record.generations.iter().map(|one| one.tails.capacity()).sum::<usize>();
            let groups = record.reported.capacity() * size_of::<Option<SlotId>>();
            let bytes = generations + groups + tails * size_of::<EntryId>();
            (reported + u64::from(record.routed), bytes)
        });
        let (held, generations) =
            records.fold((0, 0), |(held, bytes), (more, also)| (held + more, bytes + also));
        let bytes = size_of::<Self>()
            + self.table.bytes()
            + self.holders.bytes()
            + self.slots.bytes()
            + self.remains.capacity() * size_of::<Remains>()
            + self.remains.iter().map(Remains::bytes).sum::<usize>()
            + self.workers.capacity() * size_of::<Record>()
            + self.places.capacity() * size_of::<EntryId>()
            + self.announced.bytes()
            + generations;
        Memory { bytes, keys: self.table.len(), held }
    }

    /// Forgets a worker that left the fleet, and that it ever reported.
    pub fn leave(&mut self, worker: WorkerId) {
        self.announced.leave(worker);
        if worker.index() < self.workers.len() {
            self.forget(worker);
            self.workers[worker.index()] = Record::new();
        }
    }

    /// Lets time pass: drops what we routed to reporting workers so long ago that they must have
    /// reported it, and goes on clearing what was forgotten. Call it about once a second.
    pub fn tick(&mut self, now: Instant) {
        for index in 0..self.workers.len() {
            self.drop_reported_by_now(index, now);
        }
        self.sweep(sweep::TICK_CHANGES);
    }

    fn record(&mut self, worker: WorkerId) -> &mut Record {
        if self.workers.len() <= worker.index() {
            self.workers.resize_with(worker.index() + 1, Record::new);
        }
        &mut self.workers[worker.index()]
    }

    /// Drops both what a worker reported and what we routed to it.
    fn forget(&mut self, worker: WorkerId) {
        for slot in core::mem::take(&mut self.record(worker).reported).into_iter().flatten() {
            self.slots.close(slot);
        }
        self.grouped.retain(|grouped| *grouped != worker);
        self.record(worker).agreement = Agreement::default();
        while self.drop_oldest(worker.index()) {}
    }
}

impl Record {
    const fn new() -> Self {
        Self {
            feed: Feed::Never,
            reported: Vec::new(),
            generations: VecDeque::new(),
            sequence: 0,
            fresh: 0,
            routed: 0,
            capacity: CAPACITY_UNKNOWN,
            trust_permille: estimated_cache::TRUST_FIRST,
            agreement: Agreement { disagreed: 0, samples: 0 },
        }
    }

    /// Whether what was routed there is of no use once it must have been reported.
    fn reports_suffice(&self) -> bool {
        self.feed == Feed::Complete && self.agreement.verdict() != Verdict::Refuted
    }
}
