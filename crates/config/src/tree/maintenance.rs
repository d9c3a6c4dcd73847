//! Scaling, fragmentation and warm-up sections.
//!
//! The defaults are those of the core's and the gateway's own settings; a test in the binary
//! compares them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::quantity::{Share, TimeSpan};

/// Signals for autoscalers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scaling {
    /// Address of KEDA's external scaler, as in `0.0.0.0:9090`; without it, there is none.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::address::address_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Target share of a worker's cache in use.
    pub kv_target: Share,
    /// Target number of waiting requests for each worker.
    pub queue_target: u32,
    /// Target number of running requests on each worker.
    pub running_target: u32,
    /// Minimum time between two rises of the wanted number of workers.
    pub cooldown_up: TimeSpan,
    /// How long fewer workers must have been enough before the number falls.
    pub cooldown_down: TimeSpan,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            listen: None,
            kv_target: Share::from_permille(700).unwrap_or_default(),
            queue_target: 10,
            running_target: 128,
            cooldown_up: TimeSpan::from_secs(60),
            cooldown_down: TimeSpan::from_secs(300),
        }
    }
}

/// Restart of workers with fragmented memory, for workers that have `memory` and `restart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fragmentation {
    /// Maximum share of the memory in use beyond the expected share.
    pub threshold: Share,
    /// How long the memory in use must have been too much.
    pub lasting: TimeSpan,
    /// Time from a worker's start until its memory in use is the baseline for later readings.
    pub settle: TimeSpan,
    /// Maximum time for its requests in flight to finish.
    pub drain: TimeSpan,
    /// Maximum time until it is ready again.
    pub ready: TimeSpan,
    /// Time from one restart of a worker to its next; doubles each time, up to `backoff_max`.
    pub backoff: TimeSpan,
    /// Longest pause between two restarts. A worker that ran for this time begins again with `backoff`.
    pub backoff_max: TimeSpan,
    /// Share of the memory that the cache takes as it fills; `0%` for engines that reserve all of it when they start.
    pub kv_memory_share: Share,
}

impl Default for Fragmentation {
    fn default() -> Self {
        Self {
            threshold: Share::from_permille(100).unwrap_or_default(),
            lasting: TimeSpan::from_secs(60),
            settle: TimeSpan::from_secs(60),
            drain: TimeSpan::from_secs(300),
            ready: TimeSpan::from_secs(900),
            backoff: TimeSpan::from_secs(600),
            backoff_max: TimeSpan::from_secs(21_600),
            kv_memory_share: Share::from_permille(0).unwrap_or_default(),
        }
    }
}

/// Request that a worker gets before it takes traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarmUp {
    /// Prompt of the request.
    pub prompt: String,
    /// Tokens to generate.
    pub tokens: u32,
    /// Maximum time for the answer.
    pub timeout: TimeSpan,
}

impl Default for WarmUp {
    fn default() -> Self {
        let prompt = "Explain in one paragraph how a key-value cache speeds up text generation.";
        Self { prompt: prompt.to_owned(), tokens: 16, timeout: TimeSpan::from_secs(120) }
    }
}

/// Metrics page with the memory of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Address of the metrics page: of DCGM's exporter, one of `nvidia-smi`, the node exporter, or another.
    #[serde(serialize_with = "super::web_url::shown")]
    pub url: String,
    /// Metric of memory in use, if it is not one of those exporters'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// The metric of memory not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<String>,
    /// The metric of all memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// Labels of the worker's own devices, as in `{gpu: "0"}`; matching samples are added up.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Time between two readings.
    #[serde(default = "memory_interval")]
    pub interval: TimeSpan,
}

const fn memory_interval() -> TimeSpan {
    TimeSpan::from_secs(10)
}

/// How a worker is restarted: one key, which says how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// A request to `overdraft supervise`, which runs the worker.
    Supervise(Hook),
    /// A request to a service that restarts the worker. The service answers 200 when the old process has ended, or
    /// 202 at once.
    Webhook(Hook),
    /// A program that restarts the worker, and exits with code 0 when the old process has ended.
    Command(HookCommand),
}

/// HTTP service that restarts or starts a worker on request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// `http://host:port`, for a webhook with its path.
    #[serde(serialize_with = "super::web_url::shown")]
    pub url: String,
    /// Sent as `authorization: Bearer …`. Best given as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// Maximum time for the answer.
    #[serde(default = "hook_timeout")]
    pub timeout: TimeSpan,
}

/// A program that restarts a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommand {
    /// The program and its arguments, without a shell.
    pub argv: Vec<String>,
    /// Maximum run time.
    #[serde(default = "hook_timeout")]
    pub timeout: TimeSpan,
}

const fn hook_timeout() -> TimeSpan {
    TimeSpan::from_secs(120)
}
