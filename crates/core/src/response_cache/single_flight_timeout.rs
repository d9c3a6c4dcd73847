//! Single-flight timeout: how long a follower waits for the leader's answer to begin.
//!
//! The timeout is the mean time of such answers plus four mean deviations (the TCP retransmission
//! timeout, Jacobson 1988), from when the leader's request was sent. After the timeout a follower
//! sends its own request. `docs/design/cache.md`, rule 7.

use overdraft_units::Micros;

/// Kinds of requests: streamed or not, by size of the prompt, and by `max_tokens`.
const FORMS: usize = 2;
const SIZES: usize = 8;
const LIMITS: usize = 8;

/// Minimum answers of a kind before its mean is used.
const LEARNT_MIN: u32 = 3;
/// Timeout before that; longer if other kinds take longer than this.
const UNKNOWN: u64 = 5_000_000;
/// Minimum timeout: the mean may have been learnt on an idle machine.
const PATIENCE_MIN: u64 = 250_000;
/// Maximum timeout.
const PATIENCE_MAX: u64 = 600_000_000;

/// What is wanted, as far as it says how long an answer takes to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether the answer comes in one piece, and so begins with its end.
    pub whole: bool,
    /// Bytes of the request.
    pub bytes: u64,
    /// Tokens that the answer may have, where that is said.
    pub limit: Option<u32>,
}

/// A smoothed time and how far from it the times are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usual {
    mean: u64,
    spread: u64,
    seen: u32,
}

/// How long answers took to begin, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openings {
    kinds: [[[Usual; LIMITS]; SIZES]; FORMS],
    all: [Usual; FORMS],
}

impl Usual {
    fn note(&mut self, took: u64) {
        let off = took.abs_diff(self.mean);
        if self.seen == 0 {
            (self.mean, self.spread) = (took, took / 2);
        } else {
            self.mean = self.mean - self.mean / 8 + took / 8;
            self.spread = self.spread - self.spread / 4 + off / 4;
        }
        self.seen = self.seen.saturating_add(1);
    }

    fn patience(&self) -> Option<u64> {
        (LEARNT_MIN <= self.seen).then(|| self.mean + 4 * self.spread)
    }
}

impl Default for Openings {
    fn default() -> Self {
        let none = Usual::default();
        Self { kinds: [[[none; LIMITS]; SIZES]; FORMS], all: [none; FORMS] }
    }
}

impl Openings {
    /// An answer has begun so long after its question set out.
    pub fn note(&mut self, wanted: Wanted, took: Micros) {
        let took = took.get().min(PATIENCE_MAX);
        let [form, size, limit] = places(wanted);
        self.kinds[form][size][limit].note(took);
        self.all[form].note(took);
    }

    /// How long after a question set out its answer is overdue.
    pub fn patience(&self, wanted: Wanted) -> Micros {
        let [form, size, limit] = places(wanted);
        let usual = self.kinds[form][size][limit].patience();
        let others = self.all[form].patience().unwrap_or(0);
        let patience = usual.unwrap_or_else(|| others.max(UNKNOWN));
        Micros::new(patience.clamp(PATIENCE_MIN, PATIENCE_MAX))
    }
}

fn places(wanted: Wanted) -> [usize; 3] {
    let octaves = |number: u64, last: usize| {
        usize::try_from(number.max(1).ilog2() / 2).unwrap_or(last).min(last)
    };
    // Requests below 256 bytes are all alike.
    let size = octaves(wanted.bytes >> 6, SIZES - 1);
    let limit = wanted.limit.map_or(LIMITS - 1, |limit| octaves(limit.into(), LIMITS - 2));
    [usize::from(wanted.whole), size, limit]
}
