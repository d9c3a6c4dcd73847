//! Two-choice hash table: maps prefix keys to entries, in buckets of one cache line.
//!
//! The keys are sharded over 512 hash tables. Each is a row of cache lines with twelve slots and a
//! tag byte per slot, and a key is in one of two lines: the emptier one when it was inserted (power
//! of two choices, balanced allocations: Azar et al. 1994). So a look-up reads two independent
//! lines, no entry moves except when a table grows, and a removal leaves no tombstone.
//!
//! A table grows by a quarter when both lines of a key are full, which happens at a load of about
//! four fifths. The tables have unequal sizes on purpose, so that they grow one after the other
//! (R6).
//!
//! **Invariant:** a key is in one of its two lines. Slots with a tag of zero are free.

use alloc::vec;
use alloc::vec::Vec;

/// The number of shards.
const SHARDS: usize = 512;
/// How far `log2(1 + x)` rises above `x`, 0.34 times `x * (1 - x)`, in shards.
const SHARD_BEND: u64 = 174;
/// Slots per cache line.
const LINE_PLACES: usize = 12;
/// A table grows by one part in this many, and one line.
const GROWTH_PART: usize = 4;
/// Minimum load, as one part in this many, below which a table does not grow: then the keys are
/// adversarial.
const CONTRIVED_PART: usize = 4;
/// Maximum growth steps for one key; a second one is rare, except in tables of few lines.
const GROWTH_TRIES_MAX: usize = 3;
/// Makes the second line's number of the first's; odd, with bits all over.
const SCATTER: u32 = 0x9e37_79b1;

/// Places of a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line {
    /// A byte of each key, zero for none. The last four are never used.
    tags: [u8; 16],
    places: [u32; LINE_PLACES],
}

/// Bits for the places of a line; which for which, [`at`] says.
type Marks = u64;

/// All bits of eight bytes but the highest of each.
const LOW_BITS: u64 = u64::MAX / 255 * 0x7f;
/// Those of the second half's bytes that are used.
const SECOND_HALF: u64 = u32::MAX as u64;

/// The place that the lowest bit stands for: the first eight have the lowest bit of a byte each, the
/// rest the one above it.
const fn at(marks: Marks) -> usize {
    let bit = marks.trailing_zeros() as usize;
    bit / 8 + bit % 8 * 8
}

impl Line {
    const EMPTY: Self = Self { tags: [0; 16], places: [0; LINE_PLACES] };

    /// The places with this tag, all compared at once.
    #[inline]
    fn marked(&self, tag: u8) -> Marks {
        let same = u64::MAX / 255 * u64::from(tag);
        // The highest bit of every byte that is zero, and no other.
        let zero = |bytes: u64| !(((bytes & LOW_BITS) + LOW_BITS) | bytes | LOW_BITS);
        let (halves, _) = self.tags.as_chunks();
        let [first, second] =
            [halves[0], halves[1]].map(|half| zero(u64::from_le_bytes(half) ^ same));
        first >> 7 | (second & SECOND_HALF) >> 6
    }

    #[inline]
    fn find(&self, tag: u8, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut marks = self.marked(tag);
        while marks != 0 {
            let place = self.places[at(marks)];
            if is_it(place) {
                return Some(place);
            }
            marks &= marks - 1;
        }
        None
    }

    fn remove(&mut self, tag: u8, place: u32) -> bool {
        let mut marks = self.marked(tag);
        while marks != 0 {
            if self.places[at(marks)] == place {
                self.tags[at(marks)] = 0;
                return true;
            }
            marks &= marks - 1;
        }
        false
    }
}

/// One hash table.
#[derive(Debug, Default)]
struct Row {
    lines: Vec<Line>,
    len: usize,
}

/// Places of entries, by key.
#[derive(Debug)]
pub(super) struct Places {
    rows: Vec<Row>,
}

impl Places {
    /// None yet.
    pub(super) fn new() -> Self {
        let mut rows = Vec::new();
        rows.resize_with(SHARDS, Row::default);
        Self { rows }
    }

    /// The place that was inserted with `key`; `is_it` tells it from those whose keys only look alike.
    #[inline]
    pub(super) fn find(&self, key: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let lines = &self.rows[shard(key)].lines;
        let [first, second] = homes(key, lines.len());
        let (first, second) = (lines.get(first)?, lines.get(second)?);
        first.find(tag(key), &is_it).or_else(|| second.find(tag(key), is_it))
    }

    /// Has what a look for `key` reads brought into the processor's caches.
    #[inline]
    pub(super) fn touch(&self, key: u64) {
        let lines = &self.rows[shard(key)].lines;
        let [first, second] = homes(key, lines.len());
        let tag = |line: usize| lines.get(line).map(|line| line.tags[0]);
        core::hint::black_box((tag(first), tag(second)));
    }

    /// Takes in a key that is new; false where too many others look nearly like it.
    pub(super) fn insert(&mut self, key: u64, place: u32, key_of: impl Fn(u32) -> u64) -> bool {
        let row = &mut self.rows[shard(key)];
        row.insert(key, place) || row.grow(key, place, key_of)
    }

    /// Forgets a key that was inserted with `place`.
    pub(super) fn remove(&mut self, key: u64, place: u32) {
        let row = &mut self.rows[shard(key)];
        let [first, second] = homes(key, row.lines.len());
        let mut is_in =
            |line: usize| row.lines.get_mut(line).is_some_and(|line| line.remove(tag(key), place));
        if is_in(first) || is_in(second) {
            row.len -= 1;
        }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let lines: usize = self.rows.iter().map(|row| row.lines.capacity()).sum();
        lines * size_of::<Line>() + self.rows.capacity() * size_of::<Row>()
    }
}

impl Row {
    /// False where both lines are full.
    fn insert(&mut self, key: u64, place: u32) -> bool {
        let [first, second] = homes(key, self.lines.len());
        let free = |line: usize| self.lines.get(line).map_or(0, |line| line.marked(0));
        let (one, other) = (free(first), free(second));
        let (line, free) =
            if one.count_ones() < other.count_ones() { (second, other) } else { (first, one) };
        if free == 0 {
            return false;
        }
        let (line, at) = (&mut self.lines[line], at(free));
        (line.tags[at], line.places[at]) = (tag(key), place);
        self.len += 1;
        true
    }

    /// Finds room for one more; false, and nothing has changed, where no row does that is not much too
    /// large.
    fn grow(&mut self, key: u64, place: u32, key_of: impl Fn(u32) -> u64) -> bool {
        let room_max = (self.len + 1).max(LINE_PLACES) * CONTRIVED_PART;
        let mut lines = self.lines.len();
        for _ in 0..GROWTH_TRIES_MAX {
            lines += lines / GROWTH_PART + 1;
            if room_max < lines * LINE_PLACES {
                break;
            }
            let mut grown = Self { lines: vec![Line::EMPTY; lines], len: 0 };
            // The first of every line, then the second: line by line they would balance less well.
            let all = (0..LINE_PLACES).flat_map(|at| self.lines.iter().map(move |line| (line, at)));
            let taken = all.filter(|&(line, at)| line.tags[at] != 0);
            let old = taken.map(|(line, at)| (key_of(line.places[at]), line.places[at]));
            if old.chain([(key, place)]).all(|(key, place)| grown.insert(key, place)) {
                *self = grown;
                return true;
            }
        }
        false
    }
}

/// The two lines of a key.
#[expect(clippy::cast_possible_truncation, reason = "the low half, and products shifted by 32")]
#[inline]
fn homes(key: u64, lines: usize) -> [usize; 2] {
    let one = key as u32;
    let share = |half: u32| ((u64::from(half) * lines as u64) >> 32) as usize;
    [share(one), share(one.wrapping_mul(SCATTER))]
}

/// A byte of a key that says neither its row nor its lines; never zero.
const fn tag(key: u64) -> u8 {
    let tag = (key >> 56) as u8;
    if tag == 0 { u8::MAX } else { tag }
}

/// Shards are of unequal size on purpose: the largest gets twice the keys of the smallest, evenly in
/// between, so that they grow one after the other and never all at once (R6). A share that grows
/// as `2^s` along the shards `s` means `s = log2(1 + x)` for an even `x`; the bend of a parabola is
/// near enough. Keys are well mixed; these bits serve neither the lines nor the tag.
const fn shard(key: u64) -> usize {
    const ONE: u64 = 1 << 16;
    let x = key >> 40 & (ONE - 1);
    let bend = x * (ONE - x) / ONE;
    ((x * SHARDS as u64 + bend * SHARD_BEND) / ONE) as usize
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few lines and tags, so that keys stand in each other's way, also those that look alike.
    fn crowded() -> impl Strategy<Value = u64> {
        (0_u64..3, 0_u64..40, 0_u64..3)
            .prop_map(|(shard, line, tag)| (shard << 41) + (tag << 56) + line * 0x0666_6666)
    }

    proptest! {
        #[test]
        fn places_are_found_by_their_keys_until_they_are_removed(
            steps in prop::collection::vec((any::<bool>(), crowded()), 0..600),
        ) {
            let (mut places, mut model) = (Places::new(), BTreeMap::new());
            let mut keys = Vec::new();
            for (removes, key) in steps {
                match model.remove(&key) {
                    Some(place) if removes => places.remove(key, place),
                    Some(place) => drop(model.insert(key, place)),
                    None => {
                        let place = u32::try_from(keys.len()).unwrap();
                        keys.push(key);
                        // Keys that stand together as these do may be taken for contrived.
                        if places.insert(key, place, |place| keys[place as usize]) {
                            model.insert(key, place);
                        }
                    }
                }
                let found = places.find(key, |place| keys[place as usize] == key);
                prop_assert_eq!(found, model.get(&key).copied());
            }
            for (&key, &place) in &model {
                prop_assert_eq!(places.find(key, |at| keys[at as usize] == key), Some(place));
            }
            let len: usize = places.rows.iter().map(|row| row.len).sum();
            prop_assert_eq!(len, model.len());
        }
    }

    #[test]
    fn well_mixed_keys_fill_four_fifths_of_their_lines_before_these_grow() {
        let (mut places, mut keys) = (Places::new(), Vec::new());
        let mut state = 1_u64;
        for number in 0..300_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            keys.push(state ^ state >> 29);
            let place = |place: u32| keys[place as usize];
            assert!(places.insert(keys[keys.len() - 1], number, place), "{number}");
        }
        let room: usize = places.rows.iter().map(|row| row.lines.len() * LINE_PLACES).sum();
        assert!(room < keys.len() * 135 / 100, "{room}");
    }

    #[test]
    fn keys_that_were_contrived_are_refused_and_others_are_not() {
        let (mut places, mut keys) = (Places::new(), Vec::new());
        let taken = (0..100).filter(|&number| {
            keys.push(0x0100_0000_0000_0007 + (u64::from(number) << 56));
            places.insert(keys[number as usize], number, |place| keys[place as usize])
        });
        let taken = taken.count();
        assert!((LINE_PLACES..=2 * LINE_PLACES).contains(&taken), "{taken}");
        assert!(places.bytes() - Places::new().bytes() < 2_000, "{}", places.bytes());
        assert!(places.insert(u64::MAX, 100, |place| keys[place as usize]));
    }
}
