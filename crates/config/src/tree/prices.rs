//! Price section: what tokens and workers cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cascade::TokenPrices;
use super::workers::Pool;
use crate::quantity::Price;

/// What tokens and workers cost, in dollars. Access lines, metrics, the dashboard and `overdraft cost` tell by them what
/// requests, tenants, models and pools cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Dollars per million tokens, by model; without it as a cascade's `prices` say.
    pub models: BTreeMap<String, TokenPrices>,
    /// Dollars by the hour of each worker of a pool, as in `target: 4.10`; data-parallel ranks share their worker's.
    pub pools: BTreeMap<Pool, Price>,
    /// Dollars by the hour of single workers, by name, instead of their pool's; data-parallel ranks share their worker's.
    pub workers: BTreeMap<String, Price>,
}
