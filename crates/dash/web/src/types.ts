// The JSON views, as `crates/dash/src/views` has them.

export interface Condition { key: string; severity: "act" | "watch"; page: string; text: string; remedy: string; since_ms: number }

export interface WorkerRow {
  worker: string; url: string; pool: string; models: string[]; state: string; breaker: string;
  requests: number; requests_foreign: number; running?: number; waiting?: number;
  kv_capacity_tokens?: number; kv_used_tokens?: number; kv_booked_tokens: number; kv_peak_tokens?: number;
  overcommit_permille?: number; queued_tokens: number; prefill_tokens_per_second?: number;
  knows: string; prefix_tokens: number; age_ms?: number; is_late: boolean; preemptions?: number;
  ttft_p50_ms?: number; ttft_p95_ms?: number; failed_recently: number; draft_depth?: number;
}
export interface FleetView {
  at_ms: number; workers: WorkerRow[]; valve_permille: number;
  sources: { name: string; for_seconds: number; error?: string }[];
  store: { place: string; degraded: boolean; gateways: number };
}

export interface Sample {
  at_ms: number; ended: number; refused: number; failed: number; ttft_p50_ms?: number; ttft_p95_ms?: number;
  serving: number; waiting: number; kv_target_permille?: number; kv_draft_permille?: number;
  completion_tokens: number; prompt_tokens: number; cached_tokens: number; tpot_p50_ms?: number; marks?: string[];
}
export interface NowView {
  at_ms: number; version: string; started_ms: number; gateways: number; serving: number; waiting: number;
  refused_5m: number; ended_5m: number; failed_5m: number; ttft_p50_ms?: number; ttft_p95_ms?: number;
  usd_per_million_tokens?: number;
  pools: { pool: string; workers: number; up: number; kv_capacity_tokens: number; kv_used_tokens: number; requests: number }[];
  conditions: Condition[]; worst: WorkerRow[]; workers: number; sample?: Sample;
}

export interface LiveRow {
  id: string; route: string; age_ms: number; phase: string; model?: string; tenant?: string; priority?: string;
  worker?: string; ttft_ms?: number;
}
export interface RequestRow {
  number: number; id: string; route: string; ended_ms: number; total_ms: number; ttft_ms?: number; queued_ms?: number;
  status: number; end: string; streamed: boolean; model?: string; model_named?: string; tenant?: string; priority?: string; worker?: string;
  prompt_tokens?: number; cached_tokens?: number; completion_tokens?: number; served_by?: string; cache?: string;
  cost_microusd?: number; cost_target_only_microusd?: number; refused?: string; attempts: number;
}
export interface RequestsView {
  at_ms: number; live: LiveRow[]; live_count: number; rows: RequestRow[]; next: number; left_out: number; kept_max: number;
}
export interface CostParts { wait_ms: number; behind_ms: number; fetch_ms: number; slowed_ms: number; displaced_ms: number; crowded_ms: number }
export interface Candidate {
  worker: string; reason: string; score?: number; cached_tokens: number; queued_tokens: number; requests: number;
  free_tokens?: number; cost?: CostParts;
}
export interface Decision {
  after_ms: number; choice: string; worker?: string; policy: string; arm: string; by: string; sticky: boolean; prompt_tokens: number;
  tokens: string; completion_tokens_expected: number; prefix?: string; out_of_turn?: boolean; failed?: string;
  saturation?: { asked_tokens: number; free_tokens: number; waits_for: string; retry_after_ms: number };
  candidates: Candidate[]; candidates_left_out: number; lower_is_better: boolean;
}
export interface RequestDetail extends RequestRow { refusal?: string; decisions: Decision[] }

/** What `POST /admin/explain` answers. */
export interface Explanation extends Omit<Decision, "candidates" | "saturation" | "after_ms" | "lower_is_better" | "candidates_left_out"> {
  candidates: (Omit<Candidate, "cost"> & { cost_us?: Record<string, number> })[];
  candidates_left_out?: number;
  saturated?: { asked_tokens: number; free_tokens: number; waits_for: string; retry_after_us: number };
}

export interface QueueView {
  at_ms: number; waiting: { priority: string; requests: number }[]; waiting_tokens: number;
  refusals: { reason: string; priority: string; requests: number }[]; started_ms: number;
}
export interface CacheView {
  at_ms: number; mode: string; bytes: number; bytes_max: number; entries: number; shared: boolean; hits: number; misses: number;
  coalesced: number; bypasses: number; would_hit: number; would_miss: number; prefix_queried_tokens: number;
  prefix_hit_tokens: number; recent_prompt_tokens: number; recent_cached_tokens: number; fates: [string, number][];
}
export interface CascadeRow {
  cascade: string; draft: string; target: string; mode: string; on: boolean; off_reason?: string; judged: number; served: number;
  acceptance?: number; break_even?: number; loss: { estimate: number; low: number; high: number }; loss_allowed: number;
  labels: number; shadow: number; tokenizers: string;
}
export interface CascadeView { at_ms: number; cascades: CascadeRow[] }
export interface SpeculationRow {
  worker: string; models: string[]; drafts: number; draft_tokens: number; accepted_tokens: number; accepted_by_position: number[];
  acceptance_5m?: number; drafted_5m?: number; depth?: number; policy?: string; reason?: string; requests: number;
}
export interface SpeculationView { at_ms: number; workers: SpeculationRow[] }
export interface CostRow {
  tenant: string; model: string; by: string; requests: number; prompt_tokens: number; cached_tokens: number;
  completion_tokens: number; priced: number; cost_microusd: number; cost_target_only_microusd: number;
}
export interface PoolCostRow {
  pool: string; workers: number; worker_hours: number; idle_hours: number; dollars_per_hour: number; dollars: number;
}
export interface CostView { at_ms: number; since_ms: number; has_prices: boolean; pools: PoolCostRow[]; today: CostRow[]; yesterday: CostRow[] }
