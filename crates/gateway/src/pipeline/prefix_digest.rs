//! Prefix digest: hashes of a prompt's prefixes in the access log, for replays.
//!
//! Equal hashes mean equal text up to that position, for one tenant. All prefixes of a long prompt
//! would make a long line, so the hashes get sparser: each of the first eight chunks, then four for
//! each doubling. Beyond the first eight chunks a replay finds at least four fifths of a shared
//! prefix, and all of it where the prompts are equal.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use overdraft_core::prefix::PrefixKey;

/// Leading chunks that each get a hash.
const ALL_NAMED: usize = 8;
/// Hashes for each doubling after those.
const NAMED_PER_DOUBLING: usize = 4;

/// `END:NAME` for each beginning that is named, with spaces between; ends are in bytes.
pub(crate) fn told(keys: &[PrefixKey], chunk: NonZeroU32) -> String {
    let mut text = String::new();
    for place in places(keys.len()) {
        let Some(key) = keys.get(place - 1) else { break };
        let end = u64::try_from(place).unwrap_or(u64::MAX).saturating_mul(chunk.get().into());
        let space = if text.is_empty() { "" } else { " " };
        // A string takes all that is written to it.
        let _written = write!(text, "{space}{end}:{:08x}", key.short());
    }
    text
}

/// The chunks after which a beginning is named, counted from one; the last is one of them.
fn places(count: usize) -> impl Iterator<Item = usize> {
    let mut next = 1;
    std::iter::from_fn(move || {
        if count < next {
            return None;
        }
        let place = next;
        let octave = place.ilog2();
        let step = if place < ALL_NAMED { 1 } else { (1 << octave) / NAMED_PER_DOUBLING };
        next = place + step;
        if place < count && count < next {
            next = count;
        }
        Some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: usize, expected: &[usize]) {
        assert_eq!(places(count).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn beginnings_are_named_sparser_and_to_the_end() {
        check(0, &[]);
        check(3, &[1, 2, 3]);
        check(11, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
        check(20, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20]);
        check(35, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 35]);
        // As many as a prompt has at most.
        assert!(places(crate::pipeline::request_info::CHUNKS_MAX).count() < 64);
    }
}
