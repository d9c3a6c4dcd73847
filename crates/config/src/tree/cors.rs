//! CORS section: which pages of browsers may ask the gateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::TimeSpan;

/// Web pages that may send requests from browsers and read the answers. A page still needs a key where there are
/// `keys`. `/admin`, `/metrics` and the dashboard are never shared with other pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Origins of the pages, as in `https://app.example.com`; `*` stands for every page. Without an origin, browsers
    /// let no other page send requests.
    pub origins: Vec<String>,
    /// How long a browser may cache the permission; at most 24 hours.
    pub max_age: TimeSpan,
}

impl Default for Cors {
    fn default() -> Self {
        Self { origins: Vec::new(), max_age: TimeSpan::from_secs(600) }
    }
}
