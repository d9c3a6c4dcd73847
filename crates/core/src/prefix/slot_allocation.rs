//! Slot allocation: the numbers by which holder sets name workers and generations.
//!
//! A worker has one *slot* for what it reported and one per generation of what we sent it. To
//! forget a worker's chunks or a generation at once, its slot is closed and another opened: no
//! entry is touched, and lookups skip closed slots. An incremental sweep (`sweep.rs`) clears closed
//! slots from the entries, and then their numbers can be used again.
//!
//! **Invariant:** a number is reused only once no entry names it: its reference count is zero, or a
//! whole sweep has passed that began when it was already closed.

use alloc::vec::Vec;

use crate::fleet::WorkerId;

/// Maximum slots in use or being cleared: what every worker may have, and nearly as many again.
pub(super) const SLOTS_MAX: u32 = 1 << 16;

/// The number of a slot in holder sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct SlotId(pub(super) u16);

/// The source of a slot's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The worker said so.
    Reported,
    /// It said so of one of several groups of its layers.
    ReportedByGroup,
    /// We sent it there, in this generation of the worker's.
    Routed(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Vacant,
    Open,
    /// Closed, and being cleared from the entries that are known to name it.
    Clearing,
    /// Closed, and not yet part of a sweep.
    Closed,
    /// Closed before the sweep under way began.
    Sweeping,
}

/// One slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) worker: WorkerId,
    pub(super) source: Source,
    /// Entries it stands in.
    pub(super) held: u32,
    /// Entries whose parent it does not stand in; `None` once that was too costly to count.
    orphans: Option<u32>,
    phase: Phase,
}

impl Slot {
    /// Whether what it says still counts.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether the sweep under way clears it.
    pub(super) const fn is_swept(&self) -> bool {
        matches!(self.phase, Phase::Sweeping)
    }

    /// See [`Slots::set_orphans`].
    pub(super) const fn orphans(&self) -> Option<u32> {
        self.orphans
    }

    /// Whether what it says counts by itself, and not only with what others say.
    pub(super) const fn is_alone(&self) -> bool {
        !matches!(self.source, Source::ReportedByGroup)
    }

    /// Whether a search along a prompt may go by halves as far as it is concerned.
    pub(super) const fn is_searched(&self) -> bool {
        self.is_whole() || !self.is_alone()
    }

    /// Whether every entry it stands in follows from another up to the root.
    pub(super) const fn is_whole(&self) -> bool {
        matches!(self.orphans, Some(0))
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// Of each slot that is open and without gaps, as nearly all are that lookups come by, its
    /// worker: lookups go through hundreds of them.
    plain: Vec<Option<WorkerId>>,
    vacant: Vec<SlotId>,
    closed: Vec<SlotId>,
    sweeping: Vec<SlotId>,
    /// What closed slots held when they were closed.
    closing: usize,
    /// Open slots with gaps.
    gapped: usize,
}

impl Slots {
    /// Opens a slot; `None` while none is vacant.
    pub(super) fn open(&mut self, worker: WorkerId, source: Source) -> Option<SlotId> {
        let slot = Slot { worker, source, held: 0, orphans: Some(0), phase: Phase::Open };
        if let Some(id) = self.vacant.pop() {
            self.all[usize::from(id.0)] = slot;
            self.plain[usize::from(id.0)] = Some(worker);
            return Some(id);
        }
        if self.all.len() == SLOTS_MAX as usize {
            return None;
        }
        let id = SlotId(u16::try_from(self.all.len()).ok()?);
        self.all.push(slot);
        self.plain.push(Some(worker));
        Some(id)
    }

    /// Makes lookups forget what stands in a slot; whether any entry still names it. If so, it is
    /// cleared from those by who knows them, and then [`Self::cleared`].
    pub(super) fn begin_clearing(&mut self, id: SlotId) -> bool {
        let slot = &mut self.all[usize::from(id.0)];
        debug_assert_eq!(slot.phase, Phase::Open, "a slot is closed once");
        self.gapped -= usize::from(self.plain[usize::from(id.0)].is_none());
        self.plain[usize::from(id.0)] = None;
        self.closing += slot.held as usize;
        if slot.held == 0 {
            slot.phase = Phase::Vacant;
            self.vacant.push(id);
            return false;
        }
        slot.phase = Phase::Clearing;
        true
    }

    /// An entry names a slot no more that is being cleared.
    pub(super) fn clear_one(&mut self, id: SlotId) {
        self.all[usize::from(id.0)].held -= 1;
        self.closing -= 1;
    }

    /// Who knew the entries of a slot knows no more. Should any be left, a sweep finds them.
    pub(super) fn cleared(&mut self, id: SlotId) {
        let slot = &mut self.all[usize::from(id.0)];
        if slot.held == 0 {
            slot.phase = Phase::Vacant;
            self.vacant.push(id);
        } else {
            slot.phase = Phase::Closed;
            self.closed.push(id);
        }
    }

    /// Makes lookups forget what stands in a slot, and has a sweep clear it.
    pub(super) fn close(&mut self, id: SlotId) {
        let slot = &mut self.all[usize::from(id.0)];
        debug_assert_eq!(slot.phase, Phase::Open, "a slot is closed once");
        self.gapped -= usize::from(self.plain[usize::from(id.0)].is_none());
        self.plain[usize::from(id.0)] = None;
        if slot.held == 0 {
            slot.phase = Phase::Vacant;
            self.vacant.push(id);
        } else {
            slot.phase = Phase::Closed;
            self.closing += slot.held as usize;
            self.closed.push(id);
        }
    }

    /// Whose a slot is that is open, and each of whose entries follows from another up to the root.
    #[inline]
    pub(super) fn plain(&self, id: SlotId) -> Option<WorkerId> {
        self.plain[usize::from(id.0)]
    }

    pub(super) fn at(&self, id: SlotId) -> &Slot {
        &self.all[usize::from(id.0)]
    }

    pub(super) fn at_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.all[usize::from(id.0)]
    }

    /// Notes in how many entries a slot stands whose parent it does not stand in; `None` for too
    /// many to count.
    pub(super) fn set_orphans(&mut self, id: SlotId, orphans: Option<u32>) {
        let slot = &mut self.all[usize::from(id.0)];
        debug_assert_eq!(slot.phase, Phase::Open, "what is closed changes no more");
        slot.orphans = orphans;
        let plain = &mut self.plain[usize::from(id.0)];
        self.gapped -= usize::from(plain.is_none());
        *plain = (slot.is_whole() && slot.is_alone()).then_some(slot.worker);
        self.gapped += usize::from(plain.is_none());
    }

    /// Makes an open slot one of several groups' of its worker: lookups pass it over.
    pub(super) fn make_grouped(&mut self, id: SlotId) {
        let slot = &mut self.all[usize::from(id.0)];
        debug_assert_eq!(slot.phase, Phase::Open, "what is closed changes no more");
        slot.source = Source::ReportedByGroup;
        let plain = self.plain[usize::from(id.0)].take();
        self.gapped += usize::from(plain.is_some());
    }

    /// Whether any open slot has gaps; at most times none has.
    pub(super) const fn any_gaps(&self) -> bool {
        self.gapped != 0
    }

    /// Starts a sweep of what is closed by now; whether there is anything to sweep.
    pub(super) fn begin_sweep(&mut self) -> bool {
        if self.sweeping.is_empty() {
            core::mem::swap(&mut self.sweeping, &mut self.closed);
            for id in &self.sweeping {
                self.all[usize::from(id.0)].phase = Phase::Sweeping;
            }
        }
        !self.sweeping.is_empty()
    }

    /// Whether a sweep is under way.
    pub(super) fn is_sweeping(&self) -> bool {
        !self.sweeping.is_empty()
    }

    /// Places in entries that closed slots still take.
    pub(super) const fn closing(&self) -> usize {
        self.closing
    }

    /// Ends a sweep: its slots may be given out again.
    pub(super) fn end_sweep(&mut self) {
        for id in self.sweeping.drain(..) {
            let slot = &mut self.all[usize::from(id.0)];
            slot.phase = Phase::Vacant;
            self.closing -= slot.held as usize;
            self.vacant.push(id);
        }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let ids = self.vacant.capacity() + self.closed.capacity() + self.sweeping.capacity();
        self.all.capacity() * size_of::<Slot>()
            + self.plain.capacity() * size_of::<Option<WorkerId>>()
            + ids * size_of::<SlotId>()
    }
}
