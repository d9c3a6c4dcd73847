//! Sampling filters: temperature, `min_p`, `top_k` and `top_p`.
//!
//! They apply in this order, as in vLLM: `min_p` and `top_k` use logits alone; `top_p` takes the
//! smallest set of the likeliest tokens whose share of the remaining mass reaches `p`. That set
//! needs the total mass, which is one pass, and the likeliest tokens in order, which are few: the
//! search begins within a few nats of the best and widens only when those do not suffice.

use overdraft_units::TokenId;

use super::select::{self, Candidate};
use super::{GREEDY_BELOW, scan};
use crate::request::Sampling;

/// How far below the best logit (in units of the temperature) `top_p` looks at first.
const NEAR_NATS: f32 = 4.0;
/// How far at most: the weight of anything beyond is zero in single precision.
const FAR_NATS: f32 = 128.0;

/// A distribution over tokens. The probabilities sum to one; tokens that are not listed have none.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    entries: Vec<(TokenId, f32)>,
}

/// Temperature and the three filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    temperature: f32,
    top_k: Option<u32>,
    top_p: f32,
    min_p: f32,
}

impl Distribution {
    /// Tokens with their probabilities, in the order of the vocabulary.
    pub fn entries(&self) -> &[(TokenId, f32)] {
        &self.entries
    }

    /// The probability of `token`.
    pub fn probability(&self, token: TokenId) -> f32 {
        let place = self.entries.binary_search_by_key(&token, |&(token, _)| token);
        place.map_or(0.0, |place| self.entries[place].1)
    }

    /// The token at the place `uniform` (in `0..1`) of the cumulative distribution.
    pub fn at(&self, uniform: f64) -> TokenId {
        let mut left = uniform;
        for &(token, share) in &self.entries {
            left -= f64::from(share);
            if left < 0.0 {
                return token;
            }
        }
        // Rounding may leave a remainder past the last entry.
        self.entries.last().expect("a distribution is never empty").0
    }

    /// What this one has and the other lacks, as a distribution; `None` where that is nothing.
    pub(super) fn without(&self, other: &Self) -> Option<Self> {
        let rest = |&(token, share): &(TokenId, f32)| {
            let more = share - other.probability(token);
            (0.0 < more).then_some((token, more))
        };
        Self::normalised(&self.entries.iter().filter_map(rest).collect::<Vec<_>>())
    }

    /// From unnormalised weights; `None` when there are none.
    fn normalised(kept: &[(TokenId, f32)]) -> Option<Self> {
        let total: f64 = kept.iter().map(|&(_, weight)| f64::from(weight)).sum();
        if kept.is_empty() || total <= 0.0 {
            return None;
        }
        let share = |weight: f32| scan::single(f64::from(weight) / total);
        let entries = kept.iter().map(|&(token, weight)| (token, share(weight))).collect();
        Some(Self { entries })
    }
}

impl Filter {
    pub(super) fn new(sampling: &Sampling) -> Self {
        Self {
            temperature: sampling.temperature,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
        }
    }

    pub(super) fn is_greedy(&self) -> bool {
        self.temperature < GREEDY_BELOW
    }

    /// Whether every token stays in play.
    pub(super) fn keeps_all(&self) -> bool {
        self.top_k.is_none() && self.top_p >= 1.0 && self.min_p <= 0.0
    }

    pub(super) fn temperature(&self) -> f32 {
        self.temperature
    }

    /// `None` when the row has no entry above minus infinity.
    pub(super) fn distribution(&self, row: &[f32]) -> Option<Distribution> {
        let best = scan::maximum(row);
        if best == f32::NEG_INFINITY {
            return None;
        }
        if self.is_greedy() {
            return Distribution::normalised(&[(scan::argmax(row)?, 1.0)]);
        }
        let scale = self.temperature.recip();
        let weight = |logit: f32| scan::exp((logit - best) * scale);
        let floor = self.floor(best);
        let mass = |kept: &[Candidate]| -> f64 {
            kept.iter().map(|entry| f64::from(weight(entry.logit))).sum()
        };
        let share = f64::from(self.top_p);
        let (mut kept, wanted) = if let Some(count) = self.top_k {
            let count = usize::try_from(count).expect("usize holds 32 bits");
            let mut kept = select::largest(row, count, floor);
            kept.sort_unstable_by_key(|entry| entry.token);
            let wanted = mass(&kept) * share;
            (kept, wanted)
        } else if self.top_p < 1.0 {
            let wanted = scan::mass(row, floor, best, scale) * share;
            let enough = |kept: &[Candidate]| mass(kept) >= wanted;
            (self.neighbourhood(row, best, floor, enough), wanted)
        } else {
            (select::at_least(row, floor), f64::INFINITY)
        };
        if self.top_p < 1.0 {
            let last = select::head_end(&mut kept.clone(), weight, wanted)?;
            kept.retain(|&entry| select::is_at_least(entry, last));
        }
        let weigh = |entry: &Candidate| (entry.token, weight(entry.logit));
        Distribution::normalised(&kept.iter().map(weigh).collect::<Vec<_>>())
    }

    /// The logit below which `min_p` lets nothing pass.
    fn floor(&self, best: f32) -> f32 {
        if self.min_p <= 0.0 {
            return f32::MIN;
        }
        // The likeliest token always passes, also when rounding would say otherwise.
        (best + self.temperature * self.min_p.ln()).min(best)
    }

    /// Entries that are `enough` between them, or all; no worse one among them than any left out.
    fn neighbourhood(
        &self,
        row: &[f32],
        best: f32,
        floor: f32,
        enough: impl Fn(&[Candidate]) -> bool,
    ) -> Vec<Candidate> {
        let mut nats = NEAR_NATS;
        loop {
            let bar = (best - nats * self.temperature).max(floor);
            let kept = select::at_least(row, bar);
            if bar <= floor || nats >= FAR_NATS || enough(&kept) {
                return kept;
            }
            nats *= 2.0;
        }
    }
}
