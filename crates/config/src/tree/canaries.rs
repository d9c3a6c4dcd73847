//! Canary section: a share of a model's requests that goes to another model or cascade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cascade::TokenPrices;
use crate::quantity::Share;

/// A share of the requests for one name that is answered as if they had asked for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelCanary {
    /// What is tried: a model, or a cascade.
    pub model: String,
    /// Its share of the requests; all of a session are on one side.
    pub share: Share,
    /// What tokens cost, where neither side is a cascade with prices of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<CanaryPrices>,
}

/// What tokens of either side cost, in dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CanaryPrices {
    /// Of what has been in force.
    pub baseline: TokenPrices,
    /// Of what is tried.
    pub canary: TokenPrices,
}
