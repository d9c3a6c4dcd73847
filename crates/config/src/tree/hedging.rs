//! Hedging section: whether a second attempt is sent for a late first token, and at what cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Share;

/// Second attempts of streamed requests at another worker, for late first tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hedging {
    /// Whether second attempts are sent.
    pub mode: HedgingMode,
    /// Maximum prompt tokens that second attempts may compute, as a share of all served tokens.
    pub budget: Share,
}

/// Whether second attempts are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HedgingMode {
    /// Never.
    #[default]
    Off,
    /// If a first token is later than nineteen of twenty for prompts of its size, and another worker is faster and
    /// has room.
    On,
}

impl Default for Hedging {
    fn default() -> Self {
        Self { mode: HedgingMode::Off, budget: Share::from_permille(50).unwrap_or_default() }
    }
}
