//! Kept responses section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, TimeSpan};

/// Stored responses of `/v1/responses`, which clients can fetch and continue. With a `store`, all gateways share
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Responses {
    /// Maximum size in this gateway's memory.
    pub memory: ByteSize,
    /// Maximum size of one response with its input; a larger one is answered and not stored.
    pub entry_max: ByteSize,
    /// How long a response is stored; at most 30 days.
    pub ttl: TimeSpan,
}

impl Default for Responses {
    fn default() -> Self {
        Self {
            memory: ByteSize::from_bytes(128 << 20),
            entry_max: ByteSize::from_bytes(8 << 20),
            ttl: TimeSpan::from_secs(86_400),
        }
    }
}
