//! Speculative decoding section: the rule and the draft depth of workers in this process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How deep the workers inside this process guess what their model says; flags count more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Speculation {
    /// The rule: `off`, `fixed:N`, `threshold` (accepted over drafted tokens of the last hundred
    /// answers), `threshold-per-token` (guesses behind the first wrong one do not count),
    /// `batch-table`, `batch-table:1-8=4,9-64=0` or `goodput`; without it nobody guesses. To begin to guess takes a restart, to stop and to change
    /// the rule does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Tokens of a draft at most, 1 to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<usize>,
}
