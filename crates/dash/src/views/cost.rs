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
    /// Each pool by the hour, since the start.
    pub pools: Vec<PoolCostRow>,
    /// Today.
    pub today: Vec<CostRow>,
    /// The day before, as far as this gateway was there.
    pub yesterday: Vec<CostRow>,
}

/// What the workers of one pool cost by the hour, since the gateway started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolCostRow {
    /// Which pool.
    pub pool: String,
    /// Its workers that are up now.
    pub workers: u32,
    /// Hours for which workers were up, added up.
    pub worker_hours: f64,
    /// Those of them in which a worker had no request.
    pub idle_hours: f64,
    /// What its workers cost by the hour now; 0 without a price.
    pub dollars_per_hour: f64,
    /// What they have cost.
    pub dollars: f64,
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
