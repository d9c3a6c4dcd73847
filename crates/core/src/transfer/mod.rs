//! KV transfer decision: fetch a prefix's blocks from a peer, or recompute them.
//!
//! The faster alternative wins, by measurement: this engine's prefill speed against the latency and
//! bandwidth of this link. A link that was never measured has a stated prior, so that it is tried;
//! an old measurement fades back to the prior, so that the link is tried again. A peer that does not
//! answer in the time of a short prompt is asked by longer ones alone until it answers; one that
//! fails gets an exponential backoff (`docs/design/kv-share.md#r4`).
//!
//! **Invariant:** a decision is a function of its arguments, and a decision to fetch names the
//! deadline after which computing would have been better.

mod link;
#[cfg(test)]
mod tests;

use overdraft_units::{Instant, Micros, Tokens};

pub use self::link::{
    BARRED_FIRST, BARRED_MAX, BYTES_PER_SECOND_FIRST, Link, SILENCE_FAILS, STALE, WAIT_FIRST,
};
use crate::estimate::Pace;

/// Prefixes shorter than this are computed: asking costs as much.
pub const FETCH_TOKENS_MIN: Tokens = Tokens::new(64);

/// The longest that one sequence waits for its blocks, however long it would compute.
pub const FETCH_TIME_MAX: Micros = Micros::new(30_000_000);

/// A fetch must be expected to take at most three quarters of the time to compute: beliefs err, and
/// a fetch that fails is time lost.
const MARGIN: (u64, u64) = (3, 4);

/// What is missing of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Tokens in full blocks that the cache lacks.
    pub tokens: Tokens,
    /// What they come to on the wire.
    pub bytes: u64,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ask for the blocks.
    Fetch {
        /// When to stop waiting: from then on, computing would have been over sooner.
        within: Micros,
        /// How long fetching should take.
        expected: Micros,
        /// How long computing would.
        compute: Micros,
    },
    /// Compute them.
    Compute(Why),
}

/// Why nothing is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Too little is missing.
    Short,
    /// Computing should be over sooner.
    Slow,
    /// The peer has failed a moment ago.
    Barred,
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Short, Self::Slow, Self::Barred];

    /// As metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Slow => "slow",
            Self::Barred => "barred",
        }
    }
}

/// Decides between this link and computing at this pace.
pub fn judge(missing: Missing, link: &Link, pace: Pace, now: Instant) -> Verdict {
    if missing.tokens < FETCH_TOKENS_MIN {
        return Verdict::Compute(Why::Short);
    }
    if link.is_barred(now) {
        return Verdict::Compute(Why::Barred);
    }
    let compute = pace.time_for(u64::from(missing.tokens.get()));
    let expected = link.time_for(missing.bytes, now);
    let (above, below) = MARGIN;
    if compute.get().saturating_mul(above) < expected.get().saturating_mul(below) {
        return Verdict::Compute(Why::Slow);
    }
    Verdict::Fetch { within: compute.min(FETCH_TIME_MAX), expected, compute }
}

/// Decides once more where another peer turned the fetch away: `left` of its time is left.
pub fn judge_again(
    missing: Missing,
    link: &Link,
    pace: Pace,
    now: Instant,
    left: Micros,
) -> Verdict {
    match judge(missing, link, pace, now) {
        Verdict::Fetch { expected, .. } if left < expected => Verdict::Compute(Why::Slow),
        Verdict::Fetch { within, expected, compute } => {
            Verdict::Fetch { within: within.min(left), expected, compute }
        }
        computes @ Verdict::Compute(_) => computes,
    }
}
