//! Top-k selection: the few largest entries of a row, in one vectorised pass.
//!
//! A buffer of about twice the wanted number collects the entries above the current threshold; when
//! it is full, the better half stays and the threshold rises. After the first stretches almost no
//! entry exceeds it, so the pass costs one vectorised maximum per stretch. A sort of the vocabulary
//! never happens.

use core::cmp::Ordering;

use overdraft_units::TokenId;

use super::scan;

/// Entries collected beyond twice the wanted number before the buffer is halved.
const SLACK: usize = 64;
/// Entries in question that are sorted rather than halved.
const SORTED_MAX: usize = 64;
/// Entries looked at before the bar is consulted again.
const STRIDE: usize = 256;

/// A token and its logit or weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: TokenId,
    pub(super) logit: f32,
}

/// The `count` largest entries that are at least `floor`, best first, the lower token of equals
/// first.
pub(super) fn largest(row: &[f32], count: usize, floor: f32) -> Vec<Candidate> {
    let mut kept = Vec::new();
    if count == 0 {
        return kept;
    }
    let mut bar = floor.max(f32::MIN);
    let full = count.saturating_mul(2).saturating_add(SLACK);
    for (stride, part) in row.chunks(STRIDE).enumerate() {
        if scan::maximum(part) < bar {
            continue;
        }
        collect(part, stride * STRIDE, bar, &mut kept);
        if kept.len() >= full {
            kept.select_nth_unstable_by(count - 1, |&a, &b| better_first(a, b));
            kept.truncate(count);
            bar = kept[count - 1].logit;
        }
    }
    if kept.len() > count {
        kept.select_nth_unstable_by(count - 1, |&a, &b| better_first(a, b));
        kept.truncate(count);
    }
    sort(&mut kept);
    kept
}

/// All entries that are at least `floor`, in the order of the vocabulary.
pub(super) fn at_least(row: &[f32], floor: f32) -> Vec<Candidate> {
    let floor = floor.max(f32::MIN);
    let mut kept = Vec::new();
    for (stride, part) in row.chunks(STRIDE).enumerate() {
        if scan::maximum(part) >= floor {
            collect(part, stride * STRIDE, floor, &mut kept);
        }
    }
    kept
}

/// The last of the smallest head of `entries`, best first, whose weights reach `wanted`; the last of
/// all when they never do.
///
/// A selection by weight: half of what is in question is dropped at a time, so that a flat row, of
/// which most entries belong to the head, costs no sort either. The entries end up in any order.
pub(super) fn head_end(
    entries: &mut [Candidate],
    weight: impl Fn(f32) -> f32,
    wanted: f64,
) -> Option<Candidate> {
    let (mut start, mut end) = (0, entries.len());
    let mut held = 0.0;
    while end - start > SORTED_MAX {
        let half = (end - start) / 2;
        entries[start..end].select_nth_unstable_by(half, |&a, &b| better_first(a, b));
        let better = &entries[start..start + half];
        let mass: f64 = better.iter().map(|entry| f64::from(weight(entry.logit))).sum();
        if held + mass >= wanted {
            end = start + half;
        } else {
            held += mass;
            start += half;
        }
    }
    sort(&mut entries[start..end]);
    for entry in &entries[start..end] {
        held += f64::from(weight(entry.logit));
        if held >= wanted {
            return Some(*entry);
        }
    }
    entries[..end].last().copied()
}

/// Whether `entry` comes before `other`, or is it.
pub(super) fn is_at_least(entry: Candidate, other: Candidate) -> bool {
    better_first(entry, other) != Ordering::Greater
}

/// Best first, the lower token of equals first.
fn sort(kept: &mut [Candidate]) {
    kept.sort_unstable_by(|&a, &b| better_first(a, b));
}

/// Larger logits first, then lower tokens.
fn better_first(a: Candidate, b: Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.token.cmp(&b.token))
}

fn collect(part: &[f32], offset: usize, bar: f32, kept: &mut Vec<Candidate>) {
    for (index, &logit) in part.iter().enumerate() {
        if logit >= bar {
            kept.push(Candidate { token: scan::token(offset + index), logit });
        }
    }
}
