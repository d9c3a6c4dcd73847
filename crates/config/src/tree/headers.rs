//! Headers section: which headers pass between clients and workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which headers pass between clients and workers, by name or, as in `x-team-*`, by what names begin with. Headers of a
/// connection, credentials, `x-overdraft-…` and those that the gateway writes itself never pass by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Headers {
    /// Headers of clients that workers are sent, besides those that the gateway writes. The response cache tells
    /// requests apart by them: a header that changes each time, as the id of a trace does, makes each a miss.
    pub to_workers: Vec<String>,
    /// Headers of workers that clients are sent, besides `content-type`; `*` stands for all.
    pub to_clients: Vec<String>,
}

impl Default for Headers {
    fn default() -> Self {
        Self { to_workers: Vec::new(), to_clients: vec!["*".to_owned()] }
    }
}
