//! Queue view: who waits, who was refused and why.

use serde::{Deserialize, Serialize};

/// The queue, and refusals since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QueueView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who waits, by priority.
    pub waiting: Vec<Waiting>,
    /// Tokens of those who wait, prompts and expected answers.
    pub waiting_tokens: u64,
    /// Refusals by reason and priority since the start.
    pub refusals: Vec<Refusals>,
    /// When the gateway started, in milliseconds since 1970.
    pub started_ms: u64,
}

/// Who waits with one priority.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Waiting {
    /// `flex`, `default` or `priority`.
    pub priority: String,
    /// How many.
    pub requests: usize,
}

/// Refusals for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Refusals {
    /// As metrics call it.
    pub reason: String,
    /// Of this priority.
    pub priority: String,
    /// How many.
    pub requests: u64,
}
