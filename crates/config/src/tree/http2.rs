//! HTTP/2 section: whether clients may speak it, and how much of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// HTTP/2 with clients: over TLS to those that offer it, and without TLS to those that begin with it ("prior
/// knowledge"). HTTP/1.1 is spoken in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http2 {
    /// Whether HTTP/2 is spoken.
    pub enabled: bool,
    /// Maximum requests in flight on one connection, from 1. A further request is refused, and the client sends it
    /// again.
    pub max_concurrent_streams: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Self { enabled: true, max_concurrent_streams: 100 }
    }
}
