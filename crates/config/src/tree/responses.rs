//! Kept responses section.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, TimeSpan};

/// What is kept of the answers of `/v1/responses`, so that clients can ask for them and go on from them.
/// With a `store` all gateways keep them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Responses {
    /// How much is kept in this gateway's memory.
    pub memory: ByteSize,
    /// How large one response may be with its input; a larger one is answered and not kept.
    pub entry_max: ByteSize,
    /// How long a response is kept; at most 30 days.
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
