//! Dashboard section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests kept by default.
const REQUESTS: u32 = 4_096;

/// The operator's dashboard at `/dashboard`, and the data that is kept for it. It never shows the text of a
/// prompt or of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dashboard {
    /// Whether the dashboard is served, and past values are kept for its graphs.
    pub enabled: bool,
    /// Number of recent requests that are kept in memory with their decisions, at about a kilobyte each; at most
    /// 65,536. 0 keeps none.
    pub requests: u32,
}

impl Default for Dashboard {
    fn default() -> Self {
        Self { enabled: true, requests: REQUESTS }
    }
}
