//! Speculation view: how deep each worker guesses ahead, and whether it pays.

use serde::{Deserialize, Serialize};

/// Every worker that guesses ahead.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpeculationView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// Each, in the order they joined.
    pub workers: Vec<SpeculationRow>,
}

/// One worker; counts are its own, since it started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SpeculationRow {
    /// Its name.
    pub worker: String,
    /// Its models.
    pub models: Vec<String>,
    /// Drafts verified.
    pub drafts: u64,
    /// Tokens of those.
    pub draft_tokens: u64,
    /// Tokens that were right.
    pub accepted_tokens: u64,
    /// Right ones by their place in the draft.
    pub accepted_by_position: Vec<u64>,
    /// Share of the drafted tokens that were right over five minutes, of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance_5m: Option<f64>,
    /// Tokens drafted over five minutes: how much that share rests on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drafted_5m: Option<u64>,
    /// The depth in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// The rule in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Why the depth last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Requests on it now.
    pub requests: u32,
}
