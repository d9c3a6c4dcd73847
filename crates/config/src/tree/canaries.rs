//! Canary section: a share of a model's requests that goes to another model or cascade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cascade::TokenPrices;
use crate::quantity::Share;

/// A share of the requests for one name, which is answered as if the clients had asked for another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelCanary {
    /// The model or the cascade on trial.
    pub model: String,
    /// Its share of the requests; all requests of a session are on one side.
    pub share: Share,
    /// Prices of tokens, if neither side is a cascade with its own prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<CanaryPrices>,
}

/// Prices of tokens of either side, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CanaryPrices {
    /// Prices of the present model.
    pub baseline: TokenPrices,
    /// Prices of the model on trial.
    pub canary: TokenPrices,
}
