//! Longest prefix match: how many leading chunks of a prompt each worker holds.
//!
//! Along a prompt the set of holders only shrinks, as long as every worker's chunks are connected
//! to the root. Then two chunks with the same holders have the same holders between them, and a
//! binary search finds every position where a worker drops out in a logarithmic number of steps
//! (R3). Most entries of a prompt are adjacent in memory, so the search first goes along them. If a
//! worker that holds the first chunk has gaps further on, all chunks are walked instead, with the
//! same result.
//!
//! **Invariant:** the answer is that of walking the chain and stopping, for each worker, at the
//! first chunk it lacks.

use alloc::vec::Vec;

use super::chain::PrefixKey;
use super::holders::{HolderSet, Holders};
use super::slot_allocation::{Slot, Slots, Source};
use super::table::{EntryId, Table};
use super::{Chunks, PrefixIndex};
use crate::fleet::WorkerId;

/// What a lookup found; kept and used again, so that looking up allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Leading chunks per worker, by its index in the fleet.
    leading: Vec<Chunks>,
    /// For walks: the workers that hold every chunk so far.
    running: Vec<(WorkerId, Kind)>,
}

/// The sources of a worker that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reported,
    Routed,
}

impl Matches {
    /// Nothing found yet.
    pub const fn new() -> Self {
        Self { leading: Vec::new(), running: Vec::new() }
    }

    /// Leading chunks that `worker` holds.
    pub fn leading(&self, worker: WorkerId) -> Chunks {
        self.leading.get(worker.index()).copied().unwrap_or(Chunks::ZERO)
    }

    /// The workers that hold at least the first chunk, longest match first, then in the order they
    /// joined.
    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, Chunks)> {
        let all = self.leading.iter().enumerate();
        let any = all.filter(|(_, chunks)| **chunks != Chunks::ZERO);
        let mut found: Vec<_> = any.map(|(place, chunks)| (WorkerId::at(place), *chunks)).collect();
        found.sort_by_key(|&(_, chunks)| core::cmp::Reverse(chunks));
        found.into_iter()
    }

    /// The longest match of all.
    pub fn longest(&self) -> Chunks {
        self.leading.iter().copied().max().unwrap_or(Chunks::ZERO)
    }

    fn clear(&mut self) {
        self.leading.fill(Chunks::ZERO);
        self.running.clear();
    }

    /// Notes a match, unless a longer one is known.
    #[inline]
    pub(super) fn raise(&mut self, worker: WorkerId, chunks: Chunks) {
        match self.leading.get_mut(worker.index()) {
            Some(leading) => *leading = chunks.max(*leading),
            None => self.grow(worker, chunks),
        }
    }

    #[cold]
    fn grow(&mut self, worker: WorkerId, chunks: Chunks) {
        self.leading.resize(worker.index() + 1, Chunks::ZERO);
        self.leading[worker.index()] = chunks;
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
        let head = search.look(0, None);
        if !self.slots.any_gaps() || search.open(head.set).all(Slot::is_searched) {
            search.bisect(head, out);
        } else {
            search.walk(head, out);
        }
        for &worker in &self.grouped {
            out.raise(worker, self.reported_leading(worker, chain));
        }
        self.announced.raise(chain, out);
    }
}

/// A look at one chunk of a prompt.
#[derive(Clone, Copy)]
struct Look {
    /// Which chunk.
    place: usize,
    /// Where it stands, if a worker is known to hold it.
    entry: Option<EntryId>,
    /// Who holds it.
    set: HolderSet,
}

/// Into so many parts a stretch is split at once where it does not stand in a row: none of the looks
/// waits for what another found, so the waits for memory are one. More parts are fewer rounds and more
/// looks; eight took a quarter longer than four.
const PARTS: usize = 4;

/// The same along a row, where a look is cheap.
const ROW_PARTS: usize = 8;

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
        let tail = self.look(self.chain.len() - 1, None);
        self.drop_out(tail.place, tail.set, out);
        if head.set != tail.set {
            self.between([head, tail], out);
        }
    }

    /// Who holds the chunk at `place`; it may stand in a row with one that is known.
    fn look(&self, place: usize, known: Option<Look>) -> Look {
        let key = self.chain[place];
        let in_row = known.and_then(|known| self.in_row(place, known));
        let entry = in_row.or_else(|| self.table.find(key));
        let set = entry.map_or(HolderSet::NOBODY, |entry| self.table.holders(entry));
        Look { place, entry, set }
    }

    /// The entry of the chunk at `place`, if all from one that is known to it stand in a row.
    fn in_row(&self, place: usize, known: Look) -> Option<EntryId> {
        self.table.find_from(self.chain[place], known.entry?, place - known.place)
    }

    /// Finds all places between two chunks with different holders where someone drops out.
    fn between(&self, [low, high]: [Look; 2], out: &mut Matches) {
        let low = self.end_of_row(low, high.place);
        if low.place + 1 == high.place {
            return self.drop_out(low.place, low.set, out);
        }
        let next = self.look(low.place + 1, None);
        if next.set != low.set {
            self.drop_out(low.place, low.set, out);
        }
        if next.set != high.set {
            self.split([next, high], out);
        }
    }

    /// The last chunk before `end` that is found to stand in a row with `low` and to have its holders.
    /// It need not be the very last: what a look at its key has shown is true either way.
    fn end_of_row(&self, mut low: Look, end: usize) -> Look {
        let mut beyond = end;
        while low.place + 1 < beyond {
            let chunks = beyond - 1 - low.place;
            let parts = chunks.min(ROW_PARTS);
            let place = |part: usize| low.place + part * chunks / parts;
            let mut entries = [None; ROW_PARTS + 1];
            for (part, entry) in entries[..=parts].iter_mut().enumerate().skip(1) {
                let stands = self.in_row(place(part), low);
                *entry = stands.filter(|&entry| self.table.holders(entry) == low.set);
            }
            let last = (1..=parts).rev().find(|&part| entries[part].is_some());
            if last < Some(parts) {
                beyond = place(last.map_or(1, |part| part + 1));
            }
            let Some(last) = last else { continue };
            low = Look { place: place(last), entry: entries[last], set: low.set };
        }
        low
    }

    /// The same as [`between`](Self::between), where it is no row that leads on.
    fn split(&self, [low, high]: [Look; 2], out: &mut Matches) {
        let chunks = high.place - low.place;
        let parts = chunks.min(PARTS);
        let mut looks = [low; PARTS + 1];
        looks[parts] = high;
        for (part, look) in looks[..parts].iter_mut().enumerate().skip(1) {
            *look = self.look(low.place + part * chunks / parts, None);
        }
        for pair in looks[..=parts].windows(2).rev() {
            if pair[0].set != pair[1].set {
                self.between([pair[0], pair[1]], out);
            }
        }
    }

    /// Notes that the workers that hold the chunk at `place` hold all up to it.
    fn drop_out(&self, place: usize, set: HolderSet, out: &mut Matches) {
        // Who has gaps does not hold the head, or this would be a walk; so it matches nothing.
        let chunks = Chunks::of(place + 1);
        self.holders
            .members(set)
            .filter_map(|slot| self.slots.plain(slot))
            .for_each(|worker| out.raise(worker, chunks));
    }

    fn walk(&self, head: Look, out: &mut Matches) {
        for slot in self.open(head.set).filter(|slot| slot.is_alone()) {
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
            let next = self.look(place, Some(last));
            if next.set != last.set {
                running.retain(|&(worker, kind)| {
                    self.stays(worker, kind, next.set, Chunks::of(place), out)
                });
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
        worker: WorkerId,
        as_kind: Kind,
        set: HolderSet,
        before: Chunks,
        out: &mut Matches,
    ) -> bool {
        let stays = self.open(set).any(|slot| slot.worker == worker && kind(slot) == as_kind);
        if !stays {
            out.raise(worker, before);
        }
        stays
    }
}

const fn kind(slot: &Slot) -> Kind {
    match slot.source {
        Source::Reported | Source::ReportedByGroup => Kind::Reported,
        Source::Routed(_) => Kind::Routed,
    }
}
