//! Kept-response eviction policy: least recently used (LRU).
//!
//! A kept response is read once, when the conversation goes on, minutes or hours after it was made, together with
//! all responses before it. S3-FIFO takes what nobody has read yet for a request that never repeats, and evicts a
//! fresh response before chains that were followed once. Here only the time of the last use counts, so a
//! conversation that goes on stays whole, and the one that has rested longest goes.
//!
//! **Invariant:** the entries have at most as many bytes as the shelf's capacity, and each has one turn.

use alloc::collections::BTreeMap;

use overdraft_units::Instant;

use super::eviction::{Key, SLOT_BYTES};

#[derive(Debug)]
struct Slot<V> {
    value: V,
    bytes: u64,
    until: Instant,
    /// When it was last used, counted in uses of the shelf.
    turn: u64,
}

/// Things of a bounded number of bytes, of which the least recently used go first.
#[derive(Debug)]
pub struct RecencyShelf<V> {
    bytes_max: u64,
    bytes: u64,
    slots: BTreeMap<Key, Slot<V>>,
    by_turn: BTreeMap<u64, Key>,
    turn: u64,
}

impl<V> RecencyShelf<V> {
    /// An empty shelf for things of `bytes_max` bytes together.
    pub const fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, slots: BTreeMap::new(), by_turn: BTreeMap::new(), turn: 0 }
    }

    /// Looks a thing up, which is a use of it; one that is too old goes.
    pub fn get(&mut self, key: &Key, now: Instant) -> Option<&V> {
        if self.slots.get(key)?.until <= now {
            self.remove(key);
            return None;
        }
        self.turn += 1;
        let slot = self.slots.get_mut(key)?;
        self.by_turn.remove(&slot.turn);
        slot.turn = self.turn;
        self.by_turn.insert(self.turn, *key);
        Some(&slot.value)
    }

    /// Puts a thing of `bytes` bytes on the shelf until `until`, in the place of the one under the
    /// same key. What cannot fit at all stays off it.
    pub fn insert(&mut self, key: Key, value: V, bytes: u64, until: Instant) {
        self.remove(&key);
        let bytes = bytes.saturating_add(SLOT_BYTES);
        if self.bytes_max < bytes {
            return;
        }
        while self.bytes_max - bytes < self.bytes {
            let Some((_, oldest)) = self.by_turn.pop_first() else { return };
            self.remove(&oldest);
        }
        self.turn += 1;
        self.bytes += bytes;
        self.by_turn.insert(self.turn, key);
        self.slots.insert(key, Slot { value, bytes, until, turn: self.turn });
    }

    /// Takes a thing away.
    pub fn remove(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(key) {
            self.by_turn.remove(&slot.turn);
            self.bytes -= slot.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use overdraft_units::Micros;

    use super::*;

    /// Things that fill the shelf, and bytes of each with its slot.
    const ROOM: u16 = 100;
    const EACH: u64 = 1_000;

    fn key(number: u16) -> Key {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Micros::new(seconds * 1_000_000)
    }

    fn shelf() -> RecencyShelf<u16> {
        RecencyShelf::new(u64::from(ROOM) * EACH)
    }

    fn put(shelf: &mut RecencyShelf<u16>, number: u16) {
        shelf.insert(key(number), number, EACH - SLOT_BYTES, at(100));
    }

    fn holds(shelf: &mut RecencyShelf<u16>, number: u16) -> bool {
        shelf.get(&key(number), at(0)) == Some(&number)
    }

    #[test]
    fn a_fresh_response_outlives_chains_that_were_followed_before() {
        let mut shelf = shelf();
        // Conversations of ten responses: each response is read when the next one is made.
        for number in 0..2 * ROOM {
            for before in number - number % 10..number {
                assert!(holds(&mut shelf, before), "{before} before {number}");
            }
            put(&mut shelf, number);
        }
        let fresh = 1_000;
        put(&mut shelf, fresh);
        for newer in 0..15 * ROOM / 100 {
            put(&mut shelf, fresh + 1 + newer);
        }
        assert!(holds(&mut shelf, fresh));
        assert!(!holds(&mut shelf, ROOM));
        assert!(holds(&mut shelf, 2 * ROOM - 1));
        assert_eq!(shelf.bytes, u64::from(ROOM) * EACH);
    }

    #[test]
    fn what_is_used_stays_and_what_rests_goes() {
        let mut shelf = shelf();
        for number in 0..3 * ROOM {
            put(&mut shelf, number);
            assert!(holds(&mut shelf, 0), "after {number}");
        }
        assert!(!holds(&mut shelf, 1));
        assert_eq!(shelf.slots.len(), usize::from(ROOM));
        assert_eq!(shelf.by_turn.len(), usize::from(ROOM));
    }

    #[test]
    fn what_is_too_old_or_too_large_or_taken_away_has_no_room() {
        let mut shelf = shelf();
        put(&mut shelf, 1);
        assert_eq!(shelf.get(&key(1), at(100)), None);
        put(&mut shelf, 2);
        shelf.insert(key(2), 2, u64::MAX, at(100));
        assert!(!holds(&mut shelf, 2));
        put(&mut shelf, 3);
        put(&mut shelf, 3);
        assert_eq!(shelf.bytes, EACH);
        shelf.remove(&key(3));
        assert_eq!((shelf.bytes, shelf.slots.len(), shelf.by_turn.len()), (0, 0, 0));
    }
}
