//! Routing policies by name.

use core::fmt;
use core::str::FromStr;

/// Who chooses among the workers that could be asked.
///
/// ```
/// use overdraft_core::route::Policy;
///
/// assert_eq!("two-choices".parse(), Ok(Policy::TwoChoices));
/// assert!("cheapest".parse::<Policy>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The shortest wait for the first token, and the least harm to others.
    #[default]
    Cost,
    /// The write-up's: free cache and free budget, weighted (C2).
    FitScore,
    /// Where most of the prompt is, unless too much else is there.
    PrefixAffinity,
    /// The fewest requests.
    LeastLoad,
    /// The lesser load of two that are drawn.
    TwoChoices,
    /// The least recently used worker.
    RoundRobin,
    /// Every worker with the same chance.
    Random,
    /// As vllm-router and sglang-router: the longest match, unless the load is out of balance.
    CacheAware,
    /// As NVIDIA Dynamo: the least prefill and running KV cache.
    Dynamo,
    /// As llm-d: a weighted sum of prefix, KV cache and queue.
    LlmD,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Cost,
        Self::FitScore,
        Self::PrefixAffinity,
        Self::LeastLoad,
        Self::TwoChoices,
        Self::RoundRobin,
        Self::Random,
        Self::CacheAware,
        Self::Dynamo,
        Self::LlmD,
    ];

    /// As configuration and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::FitScore => "fit-score",
            Self::PrefixAffinity => "prefix-affinity",
            Self::LeastLoad => "least-load",
            Self::TwoChoices => "two-choices",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::CacheAware => "cache-aware",
            Self::Dynamo => "dynamo",
            Self::LlmD => "llm-d",
        }
    }

    /// Whether its scores are costs: microseconds for `cost`, requests for `least-load` and
    /// `two-choices`, the turn for `round-robin`, tokens for `dynamo`. The others score in
    /// millionths, higher is better.
    pub const fn lower_is_better(self) -> bool {
        !matches!(self, Self::FitScore | Self::PrefixAffinity | Self::CacheAware | Self::LlmD)
    }

    /// Whether it asks where a prompt's prefix is.
    pub const fn asks_for_prefixes(self) -> bool {
        matches!(
            self,
            Self::Cost | Self::PrefixAffinity | Self::CacheAware | Self::Dynamo | Self::LlmD
        )
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}
