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
use super::table::{EntryId, Table};
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
        if chain.is_empty() {
            return;
        }
        let search =
            Search { table: &self.table, holders: &self.holders, slots: &self.slots, chain };
        let head = search.look(0, [None; 2]);
        if search.open(head.set).all(Slot::is_whole) {
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

/// A look at one chunk of a prompt.
#[derive(Clone, Copy)]
struct Look {
    /// Which chunk.
    place: usize,
    /// Where it stands, if anybody is known to hold it.
    entry: Option<EntryId>,
    /// Who holds it.
    set: HolderSet,
}

/// Chunks from one place of a chain to another.
const fn distance(from: usize, to: usize) -> isize {
    to.cast_signed() - from.cast_signed()
}

/// From so many chunks on, three looks at once: none waits for what another found, so the waits for
/// memory are one, and two rounds become one.
const SPLIT_MIN: usize = 8;

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

    fn bisect(&self, head: Look, out: &mut Matches) {
        let tail = self.look(self.chain.len() - 1, [Some(head), None]);
        self.drop_out(tail.place, tail.set, out);
        self.between(head, tail, out);
    }

    /// Who holds the chunk at `place`; those of `known` may stand near it.
    fn look(&self, place: usize, known: [Option<Look>; 2]) -> Look {
        let chunks = |look: Look| Some((look.entry?, distance(look.place, place)));
        let entry = self.table.find_from(self.chain[place], known.map(|look| chunks(look?)));
        let set = entry.map_or(HolderSet::NOBODY, |entry| self.table.holders(entry));
        Look { place, entry, set }
    }

    /// Finds all places between two chunks where someone drops out, last first.
    fn between(&self, low: Look, high: Look, out: &mut Matches) {
        if low.set == high.set {
            return;
        }
        if low.place + 1 >= high.place {
            return self.drop_out(low.place, low.set, out);
        }
        let near = [Some(low), Some(high)];
        let chunks = high.place - low.place;
        if chunks < SPLIT_MIN {
            let middle = self.look(low.place + chunks / 2, near);
            self.between(middle, high, out);
            return self.between(low, middle, out);
        }
        let quarters = [1, 2, 3].map(|part| self.look(low.place + part * chunks / 4, near));
        let [first, middle, last] = quarters;
        self.between(last, high, out);
        self.between(middle, last, out);
        self.between(first, middle, out);
        self.between(low, first, out);
    }

    /// Notes that whoever holds the chunk at `place` holds all up to it.
    fn drop_out(&self, place: usize, set: HolderSet, out: &mut Matches) {
        // Who has gaps does not hold the head, or this would be a walk; so it matches nothing.
        for slot in self.open(set).filter(|slot| slot.is_whole()) {
            out.raise(slot.worker, Chunks::of(place + 1));
        }
    }

    fn walk(&self, head: Look, out: &mut Matches) {
        for slot in self.open(head.set) {
            let runner = (slot.worker, kind(slot));
            if !out.running.contains(&runner) {
                out.running.push(runner);
            }
        }
        let mut running = core::mem::take(&mut out.running);
        let mut last = head;
        for place in 1..self.chain.len() {
            if running.is_empty() {
                break;
            }
            let next = self.look(place, [Some(last), None]);
            if next.set != last.set {
                running.retain(|&runner| self.stays(runner, next.set, Chunks::of(place), out));
            }
            last = next;
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
