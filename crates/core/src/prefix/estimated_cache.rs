//! Estimated prefix cache: what a worker should hold by what was routed to it (LRU).
//!
//! A worker keeps the chunks it used last, as many as fit, and the front of a prompt longest. The
//! estimate does the same. Every chunk belongs to the *generation* in which it was last routed, and
//! a chain is inserted from its tail to its head. When the estimate exceeds the worker's
//! capacity, the oldest generation is evicted at once (R4). There is no linked list through the
//! chunks, so an estimate costs no more memory than a report.
//!
//! An answer that reports its cached tokens tests the estimate (R5). If a chunk was evicted, so was
//! every chunk used before it: that is what LRU means.
//!
//! **Invariant:** the chunks of an estimate are at most the worker's capacity, none of them was
//! used before one that was evicted, and each has its parent in the estimate, used no earlier.

use alloc::vec::Vec;

use overdraft_units::{Instant, Micros};

use super::chain::PrefixKey;
use super::holders::{Change, HolderSet};
use super::slot_allocation::{SlotId, Source};
use super::table::{EntryId, Parent, Table, WARMED_MAX};
use super::{Chunks, Generation, PrefixIndex};
use crate::fleet::WorkerId;

/// Maximum generations of one worker. New chunks fill half of them at most before the worker is
/// full; an estimate that needs more, because what it holds is used again and again, drops the
/// oldest although there is room.
pub const GENERATIONS_MAX: usize = 32;

/// Assumed capacity of a worker that has not reported one: 65,536 tokens in blocks of 16.
pub const CAPACITY_UNKNOWN: Chunks = Chunks::new(4_096);

/// How long a chunk routed to a reporting worker counts as pending: it may still be computing.
pub const PENDING_SPAN: Micros = Micros::new(10_000_000);

/// Minimum age of a routed chunk before its absence means that it was evicted, and not that it is
/// still being computed.
pub const HINT_SETTLE: Micros = Micros::new(10_000_000);

/// Initial trust in estimates that no answer has tested yet.
pub(super) const TRUST_FIRST: u16 = 800;

/// A new generation begins when a sixteenth of the capacity is new in the last one ...
const FRESH_SHARE: u32 = 16;
/// ... or a quarter was used in it.
const USED_SHARE: u32 = 4;
/// An index is too full when less than an eighth of it is free.
const ROOM_SHARE: usize = 8;
/// One answer moves trust by an eighth of the way.
const TRUST_WEIGHT: i32 = 8;

/// What was believed when a request was routed; for the hint that its answer may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    worker: WorkerId,
    at: Instant,
    /// The newest generation then.
    sequence: u32,
    claimed: Chunks,
    /// How deep into the chain lay chunks of each age in generations.
    depths: [Chunks; GENERATIONS_MAX],
}

impl Receipt {
    /// Leading chunks that `worker` was believed to hold from earlier requests.
    pub const fn claimed(&self) -> Chunks {
        self.claimed
    }

    /// Notes that the chunk at `depth` had last been used in this generation.
    fn note(&mut self, sequence: u32, depth: Chunks) {
        let age = self.sequence.saturating_sub(sequence) as usize;
        let deepest = &mut self.depths[age.min(GENERATIONS_MAX - 1)];
        *deepest = depth.max(*deepest);
        self.claimed = self.claimed.max(depth);
    }

    /// The generation in which the chunk after the first `cached` ones had last been used.
    fn generation_after(&self, cached: Chunks) -> Option<u32> {
        let age = self.depths.iter().position(|&depth| depth > cached)?;
        self.sequence.checked_sub(u32::try_from(age).ok()?)
    }
}

/// What an answer said about an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing was claimed, so nothing was tested.
    Untested,
    /// All that was claimed was there, but for at most one chunk: engines compute the last one again.
    Confirmed,
    /// Less was there, but it may simply not have been computed yet.
    Unsure,
    /// Less was there: what had not been used since then is dropped.
    Refuted,
}

impl PrefixIndex {
    /// Says how many chunks `worker` has room for.
    pub fn set_capacity(&mut self, worker: WorkerId, capacity: Chunks) {
        self.record(worker).capacity = capacity;
        while self.workers[worker.index()].routed > capacity.0 {
            self.drop_oldest(worker.index());
        }
    }

    /// Notes that a request with this prefix goes to `worker`, which will hold it from then on.
    ///
    /// Of a worker that reports, it is remembered only until the report must have come
    /// ([`PENDING_SPAN`]); otherwise what follows at once would not find its prefix there.
    pub fn record_routed(
        &mut self,
        worker: WorkerId,
        chain: &[PrefixKey],
        now: Instant,
    ) -> Receipt {
        self.make_room();
        let record = self.record(worker);
        let mut receipt = Receipt {
            worker,
            at: now,
            sequence: record.sequence,
            claimed: Chunks::ZERO,
            depths: [Chunks::ZERO; GENERATIONS_MAX],
        };
        let fits = chain.len().min(record.capacity.0 as usize);
        let mut places = core::mem::take(&mut self.places);
        self.enter(&chain[..fits], &mut places);
        let (mut seen, mut entered) = (None, None);
        let mut left = places.as_slice();
        while let Some((&id, above)) = left.split_last() {
            let (slot, rest) = match self.enter_new(left, &receipt) {
                Some((slot, rest)) => (Some(slot), rest),
                None => (self.touch(id, Chunks::of(left.len()), &mut seen, &mut receipt), above),
            };
            if slot.is_some() && slot != entered {
                self.note_tail(worker, id);
            }
            (entered, left) = (slot, rest);
        }
        if let Some(&last) = places.last() {
            // Nothing to do unless there was no slot for it.
            self.table.prune(last);
        }
        self.sweep(places.len());
        places.clear();
        self.places = places;
        receipt
    }

    /// Compares an estimate with how many leading chunks the worker's answer says were cached.
    pub fn record_hint(&mut self, receipt: &Receipt, cached: Chunks) -> Hint {
        let claimed = receipt.claimed;
        if claimed == Chunks::ZERO {
            return Hint::Untested;
        }
        if cached.0.saturating_add(1) >= claimed.0 {
            self.learn_trust(receipt.worker, 1_000);
            return Hint::Confirmed;
        }
        let index = receipt.worker.index();
        let Some(gone) = receipt.generation_after(cached) else { return Hint::Unsure };
        let Some(record) = self.workers.get(index) else { return Hint::Unsure };
        let next = record.generations.iter().find(|next| next.sequence == gone + 1);
        // Its last use was before the next generation began.
        if next.is_none_or(|next| receipt.at.since(next.began) < HINT_SETTLE) {
            return Hint::Unsure;
        }
        self.learn_trust(receipt.worker, u64::from(cached.0) * 1_000 / u64::from(claimed.0));
        while self.workers[index].generations.front().is_some_and(|oldest| oldest.sequence <= gone)
        {
            self.drop_oldest(index);
        }
        Hint::Refuted
    }

    /// Finds or makes the entries of a chain, as many as there is room for.
    fn enter(&mut self, chain: &[PrefixKey], places: &mut Vec<EntryId>) {
        let mut above = Parent::Root;
        let mut warm = 0;
        for (place, &key) in chain.iter().enumerate() {
            if warm <= place && self.table.find_behind(key, above).is_none() {
                self.table.warm(chain[place..].iter().copied());
                warm = place + WARMED_MAX;
            }
            let Some(id) = self.table.find_or_insert(key, above) else { break };
            places.push(id);
            above = Parent::Entry(id);
        }
    }

    /// Notes that an entry, and perhaps what comes before it, has entered the newest generation:
    /// from there on upwards lies what is to be cleared when that ends.
    fn note_tail(&mut self, worker: WorkerId, id: EntryId) {
        if let Some(newest) = self.workers[worker.index()].generations.back_mut() {
            newest.tails.push(id);
        }
    }

    /// Enters the last of `places` that nobody holds into the newest generation of the receipt's worker,
    /// as many as it takes; which that is, and what is left. The chunks of a new prompt all enter so.
    fn enter_new<'a>(
        &mut self,
        places: &'a [EntryId],
        receipt: &Receipt,
    ) -> Option<(SlotId, &'a [EntryId])> {
        let is_new = |table: &Table, id: EntryId| table.holders(id) == HolderSet::NOBODY;
        places.last().filter(|&&id| is_new(&self.table, id))?;
        let newest = self.newest(receipt.worker, receipt.at)?;
        let record = &self.workers[receipt.worker.index()];
        let [fresh_max, used_max] = shares(record.capacity);
        let used = self.slots.at(newest).held;
        // One at least, where no further generation could be begun for it.
        let room = fresh_max.saturating_sub(record.fresh).min(used_max.saturating_sub(used)).max(1);
        let mut entered = 0;
        // One after the other: keys that collide may bring an entry twice, and it is new but once.
        for &id in places.iter().rev().take(room as usize) {
            if !is_new(&self.table, id) {
                break;
            }
            self.table.set_holders(id, HolderSet::one(newest));
            entered += 1;
        }
        let left = &places[..places.len() - entered];
        let entered = Chunks::of(entered).get();
        self.slots.at_mut(newest).held += entered;
        self.count_fresh(receipt.worker.index(), entered);
        Some((newest, left))
    }

    /// Counts chunks that entered the newest generation; what is more than the worker has room for goes.
    fn count_fresh(&mut self, index: usize, entered: u32) {
        let record = &mut self.workers[index];
        record.fresh += entered;
        record.routed += entered;
        while self.workers[index].routed > self.workers[index].capacity.0 {
            self.drop_oldest(index);
        }
    }

    /// Moves an entry into the newest generation of the receipt's worker; which that is, unless the
    /// entry was there before.
    fn touch(
        &mut self,
        id: EntryId,
        depth: Chunks,
        seen: &mut Option<(HolderSet, Option<SlotId>)>,
        receipt: &mut Receipt,
    ) -> Option<SlotId> {
        let index = receipt.worker.index();
        let set = self.table.holders(id);
        let old = match *seen {
            Some((same, old)) if same == set => old,
            _ => self.routed_slot(set, receipt.worker),
        };
        let old = old.filter(|&slot| self.slots.at(slot).is_open());
        *seen = Some((set, old));
        if let Some(old) = old
            && let Source::Routed(sequence) = self.slots.at(old).source
            && sequence <= receipt.sequence
        {
            receipt.note(sequence, depth);
        }
        let newest = self.newest(receipt.worker, receipt.at)?;
        // Beginning a generation may have ended the one it stood in.
        let old = old.filter(|&slot| self.slots.at(slot).is_open());
        if old == Some(newest) {
            return None;
        }
        let set = self.holders.change(set, Change { remove: old, add: Some(newest) });
        self.table.set_holders(id, set);
        self.slots.at_mut(newest).held += 1;
        if let Some(old) = old {
            self.slots.at_mut(old).held -= 1;
            return Some(newest);
        }
        self.count_fresh(index, 1);
        Some(newest)
    }

    /// The generation that chunks enter now; `None` when no slot is left for a first one.
    fn newest(&mut self, worker: WorkerId, now: Instant) -> Option<SlotId> {
        let record = &self.workers[worker.index()];
        let [fresh_max, used_max] = shares(record.capacity);
        if let Some(newest) = record.generations.back() {
            let used = self.slots.at(newest.slot).held;
            let is_over = record.reports_suffice() && now.since(newest.began) >= PENDING_SPAN;
            let is_full = record.fresh >= fresh_max || used >= used_max;
            if !is_full && !is_over {
                return Some(newest.slot);
            }
        }
        let newest = record.generations.back().map(|newest| newest.slot);
        if record.generations.len() == GENERATIONS_MAX {
            self.drop_oldest(worker.index());
        }
        let record = &mut self.workers[worker.index()];
        let sequence = record.sequence + 1;
        let Some(slot) = self.slots.open(worker, Source::Routed(sequence)) else { return newest };
        record.sequence = sequence;
        record.fresh = 0;
        let tails = Vec::new();
        record.generations.push_back(Generation { slot, sequence, began: now, tails });
        Some(slot)
    }

    /// The slot of the generation that a worker stands in a set with.
    fn routed_slot(&self, set: HolderSet, worker: WorkerId) -> Option<SlotId> {
        self.holders.members(set).find(|&slot| {
            let slot = self.slots.at(slot);
            slot.is_open() && slot.worker == worker && matches!(slot.source, Source::Routed(_))
        })
    }

    /// Drops the oldest generation of a worker; whether there was one.
    pub(super) fn drop_oldest(&mut self, index: usize) -> bool {
        let record = &mut self.workers[index];
        let Some(oldest) = record.generations.pop_front() else { return false };
        record.routed -= self.slots.at(oldest.slot).held;
        self.abandon(oldest.slot, oldest.tails);
        true
    }

    /// Drops what a reporting worker must have reported by now.
    pub(super) fn drop_reported_by_now(&mut self, index: usize, now: Instant) {
        let is_over = |began: Instant| now.since(began) >= PENDING_SPAN + PENDING_SPAN;
        while self.workers[index].reports_suffice()
            && self.workers[index].generations.front().is_some_and(|oldest| is_over(oldest.began))
        {
            self.drop_oldest(index);
        }
    }

    /// Drops the oldest of the largest estimates when the index gets full. What that frees is
    /// cleared by the time that the eighth kept in reserve is used up.
    pub(super) fn make_room(&mut self) {
        let reserve = self.limits.keys_max as usize / ROOM_SHARE;
        while self.table.room() + self.slots.closing() < reserve {
            let sizes = self.workers.iter().enumerate();
            let largest =
                sizes.map(|(index, record)| (record.routed, core::cmp::Reverse(index))).max();
            match largest {
                Some((1.., core::cmp::Reverse(index))) => self.drop_oldest(index),
                _ => return,
            };
        }
    }

    pub(super) fn learn_trust(&mut self, worker: WorkerId, confirmed_permille: u64) {
        let record = self.record(worker);
        let before = i32::from(record.trust_permille);
        let seen = i32::try_from(confirmed_permille.min(1_000)).unwrap_or(1_000);
        let after = before + (seen - before) / TRUST_WEIGHT;
        record.trust_permille = u16::try_from(after).unwrap_or(0);
    }
}

/// Chunks of a generation that may be new, and all that may be used in it; rounded up, for with 31
/// chunks rounded down each new one would begin a generation of its own.
fn shares(capacity: Chunks) -> [u32; 2] {
    [capacity.0.div_ceil(FRESH_SHARE).max(1), capacity.0.div_ceil(USED_SHARE).max(1)]
}
