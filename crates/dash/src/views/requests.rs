//! Requests view: what happened to each recent request, and why it went where it went.

use serde::{Deserialize, Serialize};

/// Recent requests, the newest first unless another order was asked for, and those under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestsView {
    /// When this was so, in milliseconds since 1970.
    pub at_ms: u64,
    /// Requests that are being answered, the oldest first.
    pub live: Vec<LiveRow>,
    /// How many there are, listed or not.
    pub live_count: usize,
    /// Requests that have ended, in the order that was asked for.
    pub rows: Vec<RequestRow>,
    /// Ask with `after` of this for those that end later; of the oldest first, for those of the next page.
    pub next: u64,
    /// Requests that match and are not listed here.
    pub left_out: u64,
    /// Requests that are kept at most; 0 where the log of requests is off.
    pub kept_max: usize,
}

/// A request under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LiveRow {
    /// Its name.
    pub id: String,
    /// The endpoint.
    pub route: String,
    /// For how long it has run.
    pub age_ms: f64,
    /// What is waited for: `request`, `queue`, `connect`, `first token` or `data`.
    pub phase: String,
    /// The model it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How urgent it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Who answers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// From its head to its first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
}

/// A request that has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestRow {
    /// Its place in the log.
    pub number: u64,
    /// Its name.
    pub id: String,
    /// The endpoint.
    pub route: String,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// From its head to the last byte.
    pub total_ms: f64,
    /// From its head to its first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<f64>,
    /// How long it waited for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<f64>,
    /// Status sent; 0 if none was.
    pub status: u16,
    /// Who ended it and when: the two letters of the access line.
    pub end: String,
    /// Whether tokens went out as they came.
    pub streamed: bool,
    /// The model it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name that the client gave it, where that is an alias, a cascade or a canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_named: Option<String>,
    /// Whose it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How urgent it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// Who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    /// Those that its worker had in its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u32>,
    /// Whose answer it got, where a small model is asked first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    /// What the response cache had to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// What it cost, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    /// What the target alone would have cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_target_only_microusd: Option<u64>,
    /// Why it was refused for want of room or budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// How its stream went on at another worker, or why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<String>,
    /// The id of its trace, where it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Attempts at workers.
    pub attempts: u32,
}

/// One request with its decisions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RequestDetail {
    /// What happened.
    #[serde(flatten)]
    pub row: RequestRow,
    /// What the client was told, where there was no room for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The routing decisions about it, in their order.
    pub decisions: Vec<Decision>,
}

/// One routing decision.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own on the wire")]
pub struct Decision {
    /// From the request's head to the decision.
    pub after_ms: f64,
    /// What was decided: `send`, `saturated`, `no_room`, `none_up`, `none_left`, `unknown_model`.
    pub choice: String,
    /// Where it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The policy that decided.
    pub policy: String,
    /// The arm of a comparison.
    pub arm: String,
    /// Who decided: `policy`, `session`, or `trial` where a worker that had failed was due for one.
    #[serde(default)]
    pub by: String,
    /// Whether the session decided and not the policy.
    pub sticky: bool,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Whether those were counted or estimated.
    pub tokens: String,
    /// Tokens of its answer, as expected.
    pub completion_tokens_expected: u32,
    /// What became of its prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Whether it had waited and started before another one's turn, because its prompt was in use at the worker.
    #[serde(default)]
    pub out_of_turn: bool,
    /// What it would need and what there was, where it had to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// How the attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The chosen worker first, then those that lost by least.
    pub candidates: Vec<Candidate>,
    /// Candidates beyond those.
    pub candidates_left_out: usize,
    /// Whether a lower score is better.
    pub lower_is_better: bool,
}

/// What a request needs, and what there was.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saturation {
    /// Tokens it would need.
    pub asked_tokens: u64,
    /// The most that was free on one worker.
    pub free_tokens: u64,
    /// `prefix` or `room`.
    pub waits_for: String,
    /// When there should be room.
    pub retry_after_ms: f64,
}

/// One candidate.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Candidate {
    /// Who.
    pub worker: String,
    /// Why it was chosen or not.
    pub reason: String,
    /// The policy's verdict; absent where the policy was not asked, or its wait alone was longer than all that another
    /// cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<u64>,
    /// Prompt tokens it should have held.
    pub cached_tokens: u32,
    /// Prompt tokens before this request's.
    pub queued_tokens: u64,
    /// Requests on it.
    pub requests: u32,
    /// Tokens free in its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_tokens: Option<u64>,
    /// The parts of its cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostParts>,
}

/// The parts of the policy `cost`, each as time that a request waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostParts {
    /// Until the first token.
    pub wait_ms: f64,
    /// What those wait who come after it.
    pub behind_ms: f64,
    /// Fetching KV blocks from another worker.
    pub fetch_ms: f64,
    /// Decoding beside others.
    pub slowed_ms: f64,
    /// Computing again what it pushes out.
    pub displaced_ms: f64,
    /// Waiting for a cache that is full.
    pub crowded_ms: f64,
}
