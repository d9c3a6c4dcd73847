//! Headers section: which headers pass between clients and workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Headers that pass between clients and workers, by name or, as in `x-team-*`, by the beginning of names.
/// Headers of a connection, credentials, `x-overdraft-…` and headers that the gateway writes itself never pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Headers {
    /// Client headers that are sent to workers, besides those that the gateway writes. They are part of the response
    /// cache's key: a header that changes each time, such as a trace id, makes each request a miss.
    pub to_workers: Vec<String>,
    /// Worker headers that are sent to clients, besides `content-type`; `*` stands for all.
    pub to_clients: Vec<String>,
}

impl Default for Headers {
    fn default() -> Self {
        Self { to_workers: Vec::new(), to_clients: vec!["*".to_owned()] }
    }
}
