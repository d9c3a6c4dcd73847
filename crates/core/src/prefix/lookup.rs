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
        let head = search.look(0, [None; 2]);
        if !self.slots.any_gaps() || search.open(head.set).all(Slot::is_whole) {
            search.bisect(head, out);
        } else {
            search.walk(head, out);
        }
        self.announced.raise(chain, out);
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

/// Into so many parts a stretch is split at once: none of the looks waits for what another found, so
/// the waits for memory are one. More parts are fewer rounds and more looks; eight took a quarter
/// longer than four.
const PARTS: usize = 4;

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
        let tail = self.look(self.chain.len() - 1, [None; 2]);
        self.drop_out(tail.place, tail.set, out);
        if head.set != tail.set {
            // Looked up by their keys, not by where the tail stands: nobody has to wait for it.
            self.between([head, tail], [None; 2], out);
        }
    }

    /// Who holds the chunk at `place`; what is known of two others may tell where it stands.
    fn look(&self, place: usize, [before, behind]: [Option<Look>; 2]) -> Look {
        let key = self.chain[place];
        let near = |known: Option<Look>| {
            let known = known?;
            self.table.find_from(key, known.entry?, distance(known.place, place))
        };
        // Both before either is judged: the waits for memory are one.
        let (first, second) = (near(before), near(behind));
        let entry = first.or(second).or_else(|| self.table.find(key));
        let set = entry.map_or(HolderSet::NOBODY, |entry| self.table.holders(entry));
        Look { place, entry, set }
    }

    /// Finds all places between two chunks where someone drops out, last first.
    fn between(&self, [low, high]: [Look; 2], near: [Option<Look>; 2], out: &mut Matches) {
        let chunks = high.place - low.place;
        if chunks <= 1 {
            return self.drop_out(low.place, low.set, out);
        }
        let parts = chunks.min(PARTS);
        let mut looks = [low; PARTS + 1];
        looks[parts] = high;
        for (part, look) in looks[..parts].iter_mut().enumerate().skip(1) {
            *look = self.look(low.place + part * chunks / parts, near);
        }
        for pair in looks[..=parts].windows(2).rev() {
            if pair[0].set != pair[1].set {
                self.between([pair[0], pair[1]], [Some(pair[0]), Some(pair[1])], out);
            }
        }
    }

    /// Notes that whoever holds the chunk at `place` holds all up to it.
    fn drop_out(&self, place: usize, set: HolderSet, out: &mut Matches) {
        // Who has gaps does not hold the head, or this would be a walk; so it matches nothing.
        let chunks = Chunks::of(place + 1);
        self.holders
            .members(set)
            .filter_map(|slot| self.slots.plain(slot))
            .for_each(|worker| out.raise(worker, chunks));
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
