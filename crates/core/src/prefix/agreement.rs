//! Cached-token agreement: whether a worker's answers confirm what its KV events predict.
//!
//! Events may be translated wrongly without anybody noticing: by another tokenizer, another template, a
//! publisher that belongs to another worker, groups of layers that forget on their own. Answers say in
//! their usage how many prompt tokens were cached. Both are compared for a sample of the requests, and
//! only as long as they agree is a worker's index called exact.
//!
//! **Invariant:** a verdict rests on the last [`SAMPLES_MAX`] comparisons alone.

use overdraft_units::Tokens;

use super::Chunks;

/// Comparisons that a verdict rests on.
pub const SAMPLES_MAX: u32 = 16;

/// More than one disagreement in so many comparisons refutes the reports: a block that was evicted while
/// its request waited is no reason to doubt them, a pattern is.
const DISAGREEING_SHARE: u32 = 4;

/// What the comparisons so far add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing could be compared yet.
    Untested,
    /// Answers confirm the reports.
    Confirmed,
    /// Answers contradict the reports.
    Refuted,
}

/// The last comparisons of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreement {
    /// One bit for each comparison, the latest lowest: whether it disagreed.
    pub(super) disagreed: u16,
    pub(super) samples: u32,
}

/// A prediction from reports, and what the answer said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Leading chunks of the prompt that the worker had reported when the request was sent.
    pub predicted: Chunks,
    /// Tokens to a chunk.
    pub chunk: Tokens,
    /// Tokens of the prompt, as the worker counts them.
    pub prompt: Tokens,
    /// Those that it found in its cache.
    pub cached: Tokens,
}

impl Comparison {
    /// Tokens that the worker was predicted to find. Engines reuse whole blocks, and compute the last
    /// token of a prompt in any case.
    pub fn predicted_tokens(&self) -> Tokens {
        let chunk = self.chunk.get().max(1);
        let whole = self.prompt.get().saturating_sub(1) / chunk;
        Tokens::new(self.predicted.get().min(whole).saturating_mul(chunk))
    }

    /// Whether they agree, but for one block, which may just have been stored or evicted; `None` where
    /// there is no more than that to compare.
    pub fn agrees(&self) -> Option<bool> {
        let (predicted, cached) = (self.predicted_tokens().get(), self.cached.get());
        let chunk = self.chunk.get();
        (chunk < predicted.max(cached)).then(|| predicted.abs_diff(cached) <= chunk)
    }
}

impl Agreement {
    /// Takes in a comparison.
    pub(super) const fn note(&mut self, agrees: bool) {
        self.disagreed = self.disagreed << 1 | !agrees as u16;
        if self.samples < SAMPLES_MAX {
            self.samples += 1;
        }
    }

    /// Whether fewer comparisons were made than a verdict may rest on.
    pub(super) const fn is_young(self) -> bool {
        self.samples < SAMPLES_MAX
    }

    pub(super) const fn verdict(self) -> Verdict {
        if self.samples == 0 {
            return Verdict::Untested;
        }
        if self.samples < self.disagreed.count_ones() * DISAGREEING_SHARE {
            return Verdict::Refuted;
        }
        Verdict::Confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &str, expected: Verdict) {
        let mut agreement = Agreement::default();
        samples.bytes().for_each(|sample| agreement.note(sample == b'+'));
        assert_eq!(agreement.verdict(), expected, "{samples}");
    }

    #[test]
    fn a_pattern_of_disagreement_refutes_and_passes() {
        check("", Verdict::Untested);
        check("+", Verdict::Confirmed);
        check("-", Verdict::Refuted);
        check("-+", Verdict::Refuted);
        check("-+++", Verdict::Confirmed);
        check("++++++++++++----", Verdict::Confirmed);
        check("+++++++++++-----", Verdict::Refuted);
        check("-----++++++++++++", Verdict::Confirmed);
    }

    #[test]
    fn whole_blocks_are_compared_and_the_last_token_is_always_computed() {
        let compare = |predicted, prompt, cached| Comparison {
            predicted: Chunks::new(predicted),
            chunk: Tokens::new(32),
            prompt: Tokens::new(prompt),
            cached: Tokens::new(cached),
        };
        assert_eq!(compare(4, 128, 96).predicted_tokens(), Tokens::new(96));
        assert_eq!(compare(4, 129, 96).predicted_tokens(), Tokens::new(128));
        assert_eq!(compare(4, 128, 96).agrees(), Some(true));
        assert_eq!(compare(4, 200, 96).agrees(), Some(true), "one block may just have gone");
        assert_eq!(compare(4, 200, 64).agrees(), Some(false));
        assert_eq!(compare(0, 200, 128).agrees(), Some(false));
        assert_eq!(compare(0, 200, 0).agrees(), None);
        assert_eq!(compare(0, 200, 32).agrees(), None);
    }
}
