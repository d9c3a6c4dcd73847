//! Response-cache eviction policy: S3-FIFO.
//!
//! New entries go to a small queue; an entry that is hit there moves to the main queue, one that is
//! not is evicted soon, so that the many requests that never repeat do not push out those that do.
//! The keys of evicted entries are remembered for a while (ghost queue), and an entry that returns
//! goes to the main queue at once. A hit changes one small counter; LRU would relink a list.
//!
//! **Invariant:** the entries have at most as many bytes as the shelf's capacity.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use overdraft_units::Instant;

/// The key of an entry: a cryptographic hash, so that no two collide.
pub type Key = [u8; 32];

/// Maximum of an entry's hit counter.
const ASKED_MAX: u8 = 3;

/// Share of the small queue in the bytes, in tenths.
const SMALL_TENTHS: u64 = 1;

/// Minimum size of the ghost queue; otherwise one evicted key per entry.
const GHOSTS_MIN: usize = 1_024;

/// Overhead of an entry beside its own bytes: key, slot and index.
pub(super) const SLOT_BYTES: u64 = 160;

/// What a look-up finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<'a, V> {
    /// This.
    Hit(&'a V),
    /// It was too old and is gone now.
    Expired,
    /// Nothing.
    Missing,
}

/// How many things went when one came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// To make room.
    pub for_room: u32,
    /// They were too old.
    pub expired: u32,
}

/// Which queue a thing stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    bytes: u64,
    until: Instant,
    asked: u8,
    queue: Queue,
    /// Tells its place in the queue from the one of what stood there before under the same key.
    turn: u64,
}

/// Things of a bounded number of bytes.
#[derive(Debug)]
pub struct Shelf<V> {
    bytes_max: u64,
    slots: BTreeMap<Key, Slot<V>>,
    small: VecDeque<(Key, u64)>,
    main: VecDeque<(Key, u64)>,
    small_bytes: u64,
    main_bytes: u64,
    ghosts: VecDeque<u64>,
    is_ghost: BTreeSet<u64>,
    turn: u64,
}

impl<V> Shelf<V> {
    /// An empty shelf for things of `bytes_max` bytes together.
    pub const fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            slots: BTreeMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_bytes: 0,
            main_bytes: 0,
            ghosts: VecDeque::new(),
            is_ghost: BTreeSet::new(),
            turn: 0,
        }
    }

    /// Bytes of all things, with what keeping them costs.
    pub const fn bytes(&self) -> u64 {
        self.small_bytes + self.main_bytes
    }

    /// Things on it.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives it another size; what no longer fits goes.
    pub fn resize(&mut self, bytes_max: u64, now: Instant) -> Evicted {
        self.bytes_max = bytes_max;
        self.make_room(0, now)
    }

    /// Looks a thing up.
    pub fn get(&mut self, key: &Key, now: Instant) -> Found<'_, V> {
        if self.slots.get(key).is_some_and(|slot| slot.until <= now) {
            self.remove(key);
            return Found::Expired;
        }
        match self.slots.get_mut(key) {
            None => Found::Missing,
            Some(slot) => {
                slot.asked = slot.asked.saturating_add(1).min(ASKED_MAX);
                Found::Hit(&slot.value)
            }
        }
    }

    /// Puts a thing of `bytes` bytes on the shelf until `until`, in the place of the one under the
    /// same key. What cannot fit at all stays off it.
    pub fn insert(
        &mut self,
        key: Key,
        value: V,
        bytes: u64,
        until: Instant,
        now: Instant,
    ) -> Evicted {
        let was_main = self.remove(&key) == Some(Queue::Main);
        let bytes = bytes.saturating_add(SLOT_BYTES);
        if self.bytes_max < bytes {
            return Evicted::default();
        }
        let evicted = self.make_room(bytes, now);
        let returns = self.is_ghost.remove(&name(&key));
        let queue = if was_main || returns { Queue::Main } else { Queue::Small };
        self.turn += 1;
        let turn = self.turn;
        self.slots.insert(key, Slot { value, bytes, until, asked: 0, queue, turn });
        self.enqueue(key, turn, bytes, queue);
        evicted
    }

    /// Takes away what `keeps` does not want; how many went.
    pub fn retain(&mut self, mut keeps: impl FnMut(&V) -> bool) -> usize {
        let gone = self.slots.iter().filter(|(_, slot)| !keeps(&slot.value)).map(|(key, _)| *key);
        let gone: alloc::vec::Vec<Key> = gone.collect();
        for key in &gone {
            self.remove(key);
        }
        gone.len()
    }

    /// Whether the books agree: bytes add up, and everything stands in a queue.
    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        let sum: u64 = self.slots.values().map(|slot| slot.bytes).sum();
        let stands = |key: &Key, slot: &Slot<V>| {
            self.small.iter().chain(&self.main).any(|place| *place == (*key, slot.turn))
        };
        sum == self.bytes() && self.slots.iter().all(|(key, slot)| stands(key, slot))
    }

    fn enqueue(&mut self, key: Key, turn: u64, bytes: u64, queue: Queue) {
        match queue {
            Queue::Small => {
                self.small.push_back((key, turn));
                self.small_bytes += bytes;
            }
            Queue::Main => {
                self.main.push_back((key, turn));
                self.main_bytes += bytes;
            }
        }
    }

    /// Takes a thing away; its place in the queue is passed over when its turn comes.
    fn remove(&mut self, key: &Key) -> Option<Queue> {
        let slot = self.slots.remove(key)?;
        self.forget_bytes(slot.queue, slot.bytes);
        self.compact();
        Some(slot.queue)
    }

    const fn forget_bytes(&mut self, queue: Queue, bytes: u64) {
        match queue {
            Queue::Small => self.small_bytes -= bytes,
            Queue::Main => self.main_bytes -= bytes,
        }
    }

    /// Drops places of what is gone, once they are more than half of all.
    fn compact(&mut self) {
        let places = self.small.len() + self.main.len();
        if places <= 2 * self.slots.len() + GHOSTS_MIN {
            return;
        }
        let slots = &self.slots;
        let stands =
            |(key, turn): &(Key, u64)| slots.get(key).is_some_and(|slot| slot.turn == *turn);
        self.small.retain(stands);
        self.main.retain(stands);
    }

    /// Throws out until `bytes` more fit.
    fn make_room(&mut self, bytes: u64, now: Instant) -> Evicted {
        let mut evicted = Evicted::default();
        // Each round takes a place out of a queue, and puts at most one back with less to its name.
        while self.bytes_max < self.bytes() + bytes {
            let small_share = self.bytes_max / 10 * SMALL_TENTHS;
            let from_small = small_share < self.small_bytes || self.main_bytes == 0;
            let queue = if from_small { Queue::Small } else { Queue::Main };
            if !self.step(queue, now, &mut evicted) {
                break;
            }
        }
        evicted
    }

    /// Judges the oldest thing of a queue; false when there is none.
    fn step(&mut self, queue: Queue, now: Instant, evicted: &mut Evicted) -> bool {
        let oldest = match queue {
            Queue::Small => self.small.pop_front(),
            Queue::Main => self.main.pop_front(),
        };
        let Some((key, turn)) = oldest else { return false };
        let Some(slot) = self.slots.get_mut(&key).filter(|slot| slot.turn == turn) else {
            return true;
        };
        let (bytes, asked) = (slot.bytes, slot.asked);
        if slot.until <= now {
            evicted.expired += 1;
            self.slots.remove(&key);
            self.forget_bytes(queue, bytes);
            return true;
        }
        if asked > 0 {
            slot.asked = if queue == Queue::Small { 0 } else { asked - 1 };
            slot.queue = Queue::Main;
            self.forget_bytes(queue, bytes);
            self.enqueue(key, turn, bytes, Queue::Main);
            return true;
        }
        evicted.for_room += 1;
        self.slots.remove(&key);
        self.forget_bytes(queue, bytes);
        if queue == Queue::Small {
            self.haunt(&key);
        }
        true
    }

    /// Remembers the name of what was thrown out of the small queue.
    fn haunt(&mut self, key: &Key) {
        if self.is_ghost.insert(name(key)) {
            self.ghosts.push_back(name(key));
        }
        while self.slots.len().max(GHOSTS_MIN) < self.ghosts.len() {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.is_ghost.remove(&oldest);
            }
        }
    }
}

/// Short for a key, where a mistake costs nothing but a place in the other queue.
fn name(key: &Key) -> u64 {
    let (head, _) = key.split_first_chunk().expect("there are 32 bytes");
    u64::from_le_bytes(*head)
}
