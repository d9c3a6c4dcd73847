//! How many leading chunks of this prompt does each worker hold?
//!
//! Along a prompt the holders can only become fewer, as long as what every worker holds follows
//! from the root. Then two chunks with the same holders have the same between them, and it takes
//! a logarithmic number of looks to find every place where someone drops out (R3). If a worker that
//! holds the first chunk has gaps further on, all chunks are walked instead, with the same result.
//!
//! **Invariant:** the answer is that of walking the chain and stopping, for each worker, at the
//! first chunk it lacks.

use alloc::vec::Vec;

use super::chain::PrefixKey;
use super::holders::{HolderSet, Holders};
use super::slots::{Slot, Slots, Source};
use super::table::Table;
use super::{Chunks, PrefixIndex};
use crate::fleet::WorkerId;

/// What a lookup found; kept and used again, so that looking up allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Leading chunks per worker, by its place in the fleet.
    leading: Vec<Chunks>,
    /// The workers that hold any, longest match first.
    workers: Vec<WorkerId>,
    /// For walks: who is still in the running.
    running: Vec<(WorkerId, Kind)>,
}

/// What sources of a worker are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reported,
    Routed,
}

impl Matches {
    /// Nothing found yet.
    pub const fn new() -> Self {
        Self { leading: Vec::new(), workers: Vec::new(), running: Vec::new() }
    }

    /// Leading chunks that `worker` holds.
    pub fn leading(&self, worker: WorkerId) -> Chunks {
        self.leading.get(worker.index()).copied().unwrap_or(Chunks::ZERO)
    }

    /// The workers that hold at least the first chunk, longest match first. Ties are in an order
    /// that follows from the events alone.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, Chunks)> {
        self.workers.iter().map(|&worker| (worker, self.leading(worker)))
    }

    /// The longest match of all.
    pub fn longest(&self) -> Chunks {
        self.workers.first().map_or(Chunks::ZERO, |&worker| self.leading(worker))
    }

    fn clear(&mut self) {
        for worker in self.workers.drain(..) {
            self.leading[worker.index()] = Chunks::ZERO;
        }
        self.running.clear();
    }

    /// Notes a match, unless a longer one is known.
    pub(super) fn raise(&mut self, worker: WorkerId, chunks: Chunks) {
        if self.leading.len() <= worker.index() {
            self.leading.resize(worker.index() + 1, Chunks::ZERO);
        }
        let leading = &mut self.leading[worker.index()];
        if *leading == Chunks::ZERO {
            self.workers.push(worker);
        }
        *leading = chunks.max(*leading);
    }

    fn sort(&mut self) {
        let leading = &self.leading;
        self.workers
            .sort_unstable_by_key(|worker| (core::cmp::Reverse(leading[worker.index()]), *worker));
    }
}

impl PrefixIndex {
    /// Finds how many leading chunks of `chain` each worker holds.
    pub fn lookup(&self, chain: &[PrefixKey], out: &mut Matches) {
        out.clear();
        let Some(&first) = chain.first() else { return };
        let search =
            Search { table: &self.table, holders: &self.holders, slots: &self.slots, chain };
        let head = self.table.holders_of(first);
        if search.open(head).all(Slot::is_whole) {
            search.bisect(head, out);
        } else {
            search.walk(head, out);
            out.sort();
        }
        if self.announced.raise(chain, out) {
            out.sort();
        }
    }
}

/// One lookup under way.
struct Search<'a> {
    table: &'a Table,
    holders: &'a Holders,
    slots: &'a Slots,
    chain: &'a [PrefixKey],
}

impl Search<'_> {
    /// The slots of a set that still count.
    fn open(&self, set: HolderSet) -> impl Iterator<Item = &Slot> {
        self.holders.members(set).map(|slot| self.slots.at(slot)).filter(|slot| slot.is_open())
    }

    fn bisect(&self, head: HolderSet, out: &mut Matches) {
        let end = self.chain.len() - 1;
        let tail = self.table.holders_of(self.chain[end]);
        self.drop_out(end, tail, out);
        self.between((0, head), (end, tail), out);
    }

    /// Finds all places between two chunks where someone drops out, last first.
    fn between(&self, low: (usize, HolderSet), high: (usize, HolderSet), out: &mut Matches) {
        if low.1 == high.1 {
            return;
        }
        if low.0 + 1 >= high.0 {
            return self.drop_out(low.0, low.1, out);
        }
        let middle = usize::midpoint(low.0, high.0);
        let middle = (middle, self.table.holders_of(self.chain[middle]));
        self.between(middle, high, out);
        self.between(low, middle, out);
    }

    /// Notes that whoever holds the chunk at `place` holds all up to it.
    fn drop_out(&self, place: usize, set: HolderSet, out: &mut Matches) {
        // Who has gaps does not hold the head, or this would be a walk; so it matches nothing.
        for slot in self.open(set).filter(|slot| slot.is_whole()) {
            out.raise(slot.worker, Chunks::of(place + 1));
        }
    }

    fn walk(&self, head: HolderSet, out: &mut Matches) {
        for slot in self.open(head) {
            let runner = (slot.worker, kind(slot));
            if !out.running.contains(&runner) {
                out.running.push(runner);
            }
        }
        let mut running = core::mem::take(&mut out.running);
        let mut before = HolderSet::NOBODY;
        for (place, &key) in self.chain.iter().enumerate() {
            let set = self.table.holders_of(key);
            if set != before {
                running.retain(|&runner| self.stays(runner, set, Chunks::of(place), out));
                before = set;
            }
            if running.is_empty() {
                break;
            }
        }
        for (worker, _) in running.drain(..) {
            out.raise(worker, Chunks::of(self.chain.len()));
        }
        out.running = running;
    }

    /// Whether a runner holds the next chunk too; if not, notes how far it came.
    fn stays(
        &self,
        runner: (WorkerId, Kind),
        set: HolderSet,
        before: Chunks,
        out: &mut Matches,
    ) -> bool {
        let stays = self.open(set).any(|slot| (slot.worker, kind(slot)) == runner);
        if !stays {
            out.raise(runner.0, before);
        }
        stays
    }
}

const fn kind(slot: &Slot) -> Kind {
    match slot.source {
        Source::Reported => Kind::Reported,
        Source::Routed(_) => Kind::Routed,
    }
}
