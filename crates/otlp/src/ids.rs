//! Trace and span ids: a scrambled counter with a seed of the process.
//!
//! The lower half of a trace id is a bijection of the counter, so it is evenly spread, as sampling by ratio wants
//! it, and one process never makes the same id twice.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::{SpanId, TraceId};

/// Makes ids.
#[derive(Debug)]
pub struct Ids {
    seed: u64,
    count: AtomicU64,
}

impl Ids {
    /// Ids that follow from `seed`, for tests.
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(1) }
    }

    /// Ids with a seed from the operating system.
    pub fn random() -> Self {
        Self::seeded(RandomState::new().hash_one("overdraft traces"))
    }

    /// A new trace.
    pub fn trace(&self) -> TraceId {
        let low = self.next();
        let high = scramble(self.seed ^ low.rotate_left(32));
        TraceId(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }

    /// A new span.
    pub fn span(&self) -> SpanId {
        SpanId(self.next().to_be_bytes())
    }

    /// Never zero, which names nothing.
    fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        scramble(self.seed.wrapping_add(count)).max(1)
    }
}

/// A bijection of 64 bits (splitmix64 finalizer).
const fn scramble(value: u64) -> u64 {
    let mut mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
