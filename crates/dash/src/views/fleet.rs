//! Fleet view: every worker as the router sees it, where they come from, and what gateways share.

use serde::{Deserialize, Serialize};

/// The workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FleetView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// Each worker, in the order they joined.
    pub workers: Vec<WorkerRow>,
    /// Where workers are discovered.
    pub sources: Vec<SourceRow>,
    /// What gateways share.
    pub store: StoreRow,
    /// Use of a cache from which requests wait, in thousandths.
    pub valve_permille: u64,
}

/// One worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Its name.
    pub worker: String,
    /// Its address.
    pub url: String,
    /// `target` or `draft`.
    pub pool: String,
    /// The models it serves.
    pub models: Vec<String>,
    /// One word for its state: `up`, `draining`, `unproven`, or what is wrong with it.
    pub state: String,
    /// Its circuit breaker: `closed`, `open` or `half_open`.
    pub breaker: String,
    /// Requests on it through this gateway.
    pub requests: u32,
    /// Requests on it through others.
    pub requests_foreign: u32,
    /// Requests that it computes, by its own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Requests that wait there, by its own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
    /// Tokens that its cache has room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_capacity_tokens: Option<u64>,
    /// Tokens in use: its last word, and what it was sent since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_used_tokens: Option<u64>,
    /// Tokens of the requests in flight, prompts and expected answers: the ledger.
    pub kv_booked_tokens: u64,
    /// The most that those are predicted to hold at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_peak_tokens: Option<u64>,
    /// Prompts and declared answers of all that is in flight, over the capacity, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit_permille: Option<u64>,
    /// Prompt tokens that it has yet to compute.
    pub queued_tokens: u64,
    /// How fast it computes prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_tokens_per_second: Option<u64>,
    /// What matches rest on: `exact`, `stale` or `estimated`.
    pub knows: String,
    /// Tokens of prefixes it is believed to hold.
    pub prefix_tokens: u64,
    /// How old its word on its load is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Whether it should have reported its load by now; one without requests is asked rarely.
    pub is_late: bool,
    /// Requests it had to compute again for want of memory, since it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemptions: Option<u64>,
    /// Median time to the first token of the recent requests it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p50_ms: Option<f64>,
    /// The same of the slowest twentieth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p95_ms: Option<f64>,
    /// Recent attempts that it failed.
    pub failed_recently: u32,
    /// Depth of its drafts in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_depth: Option<u64>,
}

/// One source of workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SourceRow {
    /// As log lines call it.
    pub name: String,
    /// For how long it has stood so.
    pub for_seconds: u64,
    /// What is in its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What gateways share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoreRow {
    /// Where.
    pub place: String,
    /// Whether it does not answer.
    pub degraded: bool,
    /// Gateways that share.
    pub gateways: u64,
}
