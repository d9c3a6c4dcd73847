//! Pending prefix insertions: prompts that were just sent and are not in the index yet.
//!
//! Inserting a prompt into the index takes time for each of its chunks, so the request is sent
//! first and inserted afterwards. In between, requests with the same prefix must find it. A note
//! holds the keys of the prefixes that are a power of two of chunks long, and of the whole prompt:
//! equal prompts and their continuations match whole, other shared prefixes match by more than
//! half.
//!
//! **Invariant:** there are at most [`ANNOUNCED_MAX`] notes, and a note is removed when its request
//! is inserted or ends. A note beyond the maximum replaces the oldest, whose prompt is then found
//! once it is inserted.

use alloc::collections::VecDeque;

use super::chain::PrefixKey;
use super::lookup::Matches;
use super::{Chunks, PrefixIndex};
use crate::fleet::WorkerId;

/// Maximum pending insertions; the prompts of others are found a moment later.
pub const ANNOUNCED_MAX: usize = 64;

/// Prefixes that a note names besides the whole: of 1, 2, 4, ... chunks, up to 32,768.
const DEPTHS: usize = 16;

/// Handle of a note, to remove it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a note that is not taken back misleads until enough others have come"]
pub struct Announcement(u64);

/// All notes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Announced {
    notes: VecDeque<Note>,
    /// The number of the next note.
    next: u64,
}

#[derive(Debug)]
struct Note {
    number: u64,
    worker: WorkerId,
    chunks: usize,
    last: PrefixKey,
    /// Names of the prefixes of `1 << place` chunks, as many as there are.
    at_powers: [PrefixKey; DEPTHS],
}

impl Note {
    /// How many leading chunks of `chain` are known to be the same.
    fn shared(&self, chain: &[PrefixKey]) -> usize {
        if chain.get(self.chunks - 1) == Some(&self.last) {
            return self.chunks;
        }
        let shortest = self.chunks.min(chain.len());
        let depths = (0..DEPTHS).map(|power| 1_usize << power).take_while(|&at| at <= shortest);
        let same = depths.zip(&self.at_powers).take_while(|&(at, key)| chain[at - 1] == *key);
        same.last().map_or(0, |(at, _)| at)
    }
}

impl Announced {
    /// Notes, for each worker, the leading chunks of `chain` that it was just sent.
    pub(super) fn raise(&self, chain: &[PrefixKey], out: &mut Matches) {
        for note in &self.notes {
            let shared = note.shared(chain);
            if 0 < shared {
                out.raise(note.worker, Chunks::of(shared));
            }
        }
    }

    /// Forgets a worker.
    pub(super) fn leave(&mut self, worker: WorkerId) {
        self.notes.retain(|note| note.worker != worker);
    }

    /// Bytes of memory held elsewhere.
    pub(super) fn bytes(&self) -> usize {
        self.notes.capacity() * size_of::<Note>()
    }
}

impl PrefixIndex {
    /// Notes that a request with this prefix goes to `worker`, in time that does not grow with its
    /// length. Take it back with [`take_back`](Self::take_back) once it
    /// [is remembered](Self::record_routed), or never will be.
    pub fn announce(&mut self, worker: WorkerId, chain: &[PrefixKey]) -> Option<Announcement> {
        let &last = chain.last()?;
        let notes = &mut self.announced.notes;
        if notes.len() == ANNOUNCED_MAX {
            notes.pop_front();
        }
        let number = self.announced.next;
        self.announced.next += 1;
        let at_powers =
            core::array::from_fn(|power| chain.get((1 << power) - 1).copied().unwrap_or(last));
        notes.push_back(Note { number, worker, chunks: chain.len(), last, at_powers });
        Some(Announcement(number))
    }

    /// Takes a note back.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what makes it end once")]
    pub fn take_back(&mut self, announcement: Announcement) {
        let notes = &mut self.announced.notes;
        // The newest are the first to be remembered, mostly.
        if let Some(at) = notes.iter().rposition(|note| note.number == announcement.0) {
            notes.remove(at);
        }
    }
}
