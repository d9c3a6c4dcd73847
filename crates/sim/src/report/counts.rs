//! Counters of a simulated fleet beside the per-request samples.

use serde_json::{Map, Value, json};

use super::missed::Missed;
use crate::float_conversion::float;

/// Counts of a whole fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times a sequence lost its place in a cache.
    pub preemptions: u64,
    /// Pages that were given to others while their content could still be found.
    pub evictions: u64,
    /// Times a worker died for want of pages.
    pub crashes: u64,
    /// Attempts that were made again on another worker.
    pub retries: u64,
    /// Second attempts that were sent for late first tokens.
    pub hedges: u64,
    /// Those of them that were faster.
    pub hedges_won: u64,
    /// Tokens that they and the losers computed.
    pub hedge_tokens: u64,
    /// Requests that were answered with an answer of before.
    pub reused: u64,
    /// Guesses that were put to the test.
    pub drafted: u64,
    /// Those of them that were right.
    pub right: u64,
    /// Requests that were put to a draft pool.
    pub drafts_asked: u64,
    /// Those that got its answer.
    pub drafts_served: u64,
    /// Those of them whose answer was worse than the target's.
    pub drafts_worse: u64,
    /// Prompt tokens that were not found, by cause; nothing where nobody looked.
    pub missed: Missed,
}

impl Counts {
    /// The share of guesses that were right; no number where nobody guessed.
    pub(crate) fn right_share(&self) -> f64 {
        if self.drafted == 0 { f64::NAN } else { float(self.right) / float(self.drafted) }
    }

    /// Under names of their own.
    pub(crate) fn json(self) -> Map<String, Value> {
        let counts = [
            ("preemptions", self.preemptions),
            ("cache_pages_evicted", self.evictions),
            ("crashes", self.crashes),
            ("retries", self.retries),
            ("hedges", self.hedges),
            ("hedges_won", self.hedges_won),
            ("hedge_tokens", self.hedge_tokens),
            ("answers_reused", self.reused),
            ("draft_tokens", self.drafted),
            ("accepted_tokens", self.right),
            ("drafts_asked", self.drafts_asked),
            ("drafts_served", self.drafts_served),
            ("drafts_worse", self.drafts_worse),
        ];
        let counts = counts.into_iter().map(|(name, count)| (name.to_owned(), json!(count)));
        counts.chain(self.missed.json()).collect()
    }

    /// What is worth a line, for a terminal.
    pub(crate) fn lines(self) -> Vec<(&'static str, u64)> {
        let always = [("Preemptions:", self.preemptions)];
        let happened = [
            ("Cached pages evicted:", self.evictions),
            ("Crashes for want of pages:", self.crashes),
            ("Attempts made again elsewhere:", self.retries),
            ("Second attempts sent:", self.hedges),
            ("Second attempts that were faster:", self.hedges_won),
            ("Tokens that they cost:", self.hedge_tokens),
            ("Answers given again:", self.reused),
            ("Tokens guessed:", self.drafted),
            ("Guesses that were right:", self.right),
            ("Requests put to the draft pool:", self.drafts_asked),
            ("Requests that got its answer:", self.drafts_served),
            ("Answers worse than the target's:", self.drafts_worse),
        ];
        let happened = happened.into_iter().filter(|(_, count)| 0 < *count);
        always.into_iter().chain(happened).chain(self.missed.lines()).collect()
    }
}
