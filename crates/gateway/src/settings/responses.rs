//! Settings of kept responses: size and TTL of what `/v1/responses` keeps.

use std::time::Duration;

/// How the answers of `/v1/responses` are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsesSettings {
    /// Bytes kept in this gateway's memory.
    pub memory_bytes: u64,
    /// Bytes of one response with its input at most; a larger one is answered and not kept.
    pub entry_bytes: usize,
    /// How long one is kept.
    pub life: Duration,
}

impl Default for ResponsesSettings {
    fn default() -> Self {
        Self {
            memory_bytes: 128 * 1024 * 1024,
            entry_bytes: 8 * 1024 * 1024,
            life: Duration::from_hours(24),
        }
    }
}
