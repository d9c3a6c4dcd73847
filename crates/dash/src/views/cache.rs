//! Cache view: what reuse brings, of whole answers and of prefixes.

use serde::{Deserialize, Serialize};

/// The response cache, and the prefix caches of the workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CacheView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// `off`, `observe` or `on`.
    pub mode: String,
    /// Bytes kept in memory.
    pub bytes: u64,
    /// Bytes that may be kept.
    pub bytes_max: u64,
    /// Answers kept.
    pub entries: u64,
    /// Whether gateways share answers.
    pub shared: bool,
    /// Requests answered by what was kept.
    pub hits: u64,
    /// Requests that had to be computed.
    pub misses: u64,
    /// Requests that shared the answer of an equal one under way.
    pub coalesced: u64,
    /// Requests that may not be answered so.
    pub bypasses: u64,
    /// Where it only observes: those it would have answered, and not.
    pub would_hit: u64,
    /// See above.
    pub would_miss: u64,
    /// Prompt tokens that workers looked up in their prefix caches.
    pub prefix_queried_tokens: u64,
    /// Those they found.
    pub prefix_hit_tokens: u64,
    /// Prompt tokens of the requests in the log.
    pub recent_prompt_tokens: u64,
    /// Those that were in a worker's cache.
    pub recent_cached_tokens: u64,
    /// What the decisions in the log made of prefixes, by word.
    pub fates: Vec<(String, u64)>,
}
