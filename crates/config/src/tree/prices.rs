//! Price section: what tokens and workers cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cascade::TokenPrices;
use super::workers::Pool;
use crate::quantity::Price;

/// Prices of tokens and workers, in dollars. Access lines, metrics, the dashboard and `overdraft cost` use them
/// for the cost of requests, tenants, models and pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Dollars per million tokens, by model; without this key, a cascade's `prices` apply.
    pub models: BTreeMap<String, TokenPrices>,
    /// Dollars an hour for each worker of a pool, as in `target: 4.10`; data-parallel ranks share the price of their
    /// worker.
    pub pools: BTreeMap<Pool, Price>,
    /// Dollars an hour for single workers, by name, instead of their pool's price; data-parallel ranks share the
    /// price of their worker.
    pub workers: BTreeMap<String, Price>,
}
