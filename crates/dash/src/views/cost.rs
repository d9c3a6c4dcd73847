//! Cost view: who pays for what today.

use serde::{Deserialize, Serialize};

/// Use and cost by tenant, model and pool, of one day by UTC.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CostView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// From when on it was counted: midnight by UTC, or the start if that was later.
    pub since_ms: u64,
    /// Whether any price is configured.
    pub has_prices: bool,
    /// Today.
    pub today: Vec<CostRow>,
    /// The day before, as far as this gateway was there.
    pub yesterday: Vec<CostRow>,
}

/// What one tenant asked of one model at one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostRow {
    /// Whose.
    pub tenant: String,
    /// Of which model.
    pub model: String,
    /// Who answered: `target`, `draft` or `verified`, or `cache`.
    pub by: String,
    /// Requests that were answered.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Those that were in a worker's cache.
    pub cached_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Requests of which the price is known.
    pub priced: u64,
    /// What those cost, in millionths of a dollar.
    pub cost_microusd: u64,
    /// What the target alone would have cost.
    pub cost_target_only_microusd: u64,
}
