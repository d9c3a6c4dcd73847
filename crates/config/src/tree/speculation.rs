//! Speculative decoding section: the rule and the draft depth of workers in this process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Speculative decoding in the workers inside this process; flags take precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Speculation {
    /// Rule for the depth of drafts: `off`, `fixed:N`, `threshold` (accepted over drafted tokens of the last hundred
    /// answers), `threshold-per-token` (guesses behind the first wrong one do not count), `batch-table`,
    /// `batch-table:1-8=4,9-64=0` or `goodput`. Without it, workers do not guess. Switching it on takes a restart;
    /// switching it off or changing the rule does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Maximum tokens of a draft, 1 to 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<usize>,
}
