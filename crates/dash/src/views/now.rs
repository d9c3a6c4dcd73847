//! Now view: the golden numbers, what needs an operator's eyes, and a quarter of an hour of history.

use serde::{Deserialize, Serialize};

use super::fleet::WorkerRow;
use crate::conditions::Condition;

/// The state of the whole gateway in one look.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NowView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// The release.
    pub version: String,
    /// When the gateway started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Gateways that share a store.
    pub gateways: u64,
    /// Requests being answered.
    pub serving: u64,
    /// Requests that wait for a worker.
    pub waiting: u64,
    /// Requests refused for want of room or budget in the last five minutes.
    pub refused_5m: u64,
    /// Requests that ended in the last five minutes.
    pub ended_5m: u64,
    /// Those of them that a worker or a defect ended.
    pub failed_5m: u64,
    /// Time to the first token over five minutes, median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p50_ms: Option<f64>,
    /// The same of the slowest twentieth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p95_ms: Option<f64>,
    /// Dollars for a million tokens today, where prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_tokens: Option<f64>,
    /// Each pool.
    pub pools: Vec<PoolRow>,
    /// What needs an operator's eyes, the worst first.
    pub conditions: Vec<Condition>,
    /// The ten workers that are worst off.
    pub worst: Vec<WorkerRow>,
    /// How many workers there are.
    pub workers: usize,
    /// The latest second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

/// One pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PoolRow {
    /// `target` or `draft`.
    pub pool: String,
    /// Workers.
    pub workers: usize,
    /// Those that take requests.
    pub up: usize,
    /// Tokens their caches have room for.
    pub kv_capacity_tokens: u64,
    /// Tokens in use.
    pub kv_used_tokens: u64,
    /// Requests on them.
    pub requests: u64,
}

/// What happened in one second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
    /// Requests that ended.
    pub ended: u32,
    /// Those refused for want of room or budget.
    pub refused: u32,
    /// Those that a worker or a defect ended.
    pub failed: u32,
    /// Median time to the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p50_ms: Option<f64>,
    /// The same of the slowest twentieth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_p95_ms: Option<f64>,
    /// Requests on the workers.
    pub serving: u32,
    /// Requests that wait in the gateway.
    pub waiting: u32,
    /// Use of the target pool's caches, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_target_permille: Option<u32>,
    /// Use of the draft pool's caches, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_draft_permille: Option<u32>,
    /// Tokens of answers that ended.
    pub completion_tokens: u32,
    /// Prompt tokens of answers that ended.
    pub prompt_tokens: u32,
    /// Those that were in a worker's cache.
    pub cached_tokens: u32,
    /// Median time between two tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_p50_ms: Option<f64>,
    /// What happened to the gateway, as marks on graphs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}

/// The last seconds, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistoryView {
    /// Each second.
    pub samples: Vec<Sample>,
}
