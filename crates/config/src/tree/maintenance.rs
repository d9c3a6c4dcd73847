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

/// What autoscalers are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scaling {
    /// Where KEDA's external scaler listens, as in `0.0.0.0:9090`; without it, nowhere.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::address::address_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub listen: Option<SocketAddr>,
    /// Share of its cache that a worker is meant to have in use.
    pub kv_target: Share,
    /// Requests that are meant to wait for a worker.
    pub queue_target: u32,
    /// Requests that are meant to be under way on a worker.
    pub running_target: u32,
    /// From one rise of the number of workers asked for to the next.
    pub cooldown_up: TimeSpan,
    /// For how long fewer workers must have been enough before the number falls.
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

/// When a worker that has `memory` and `restart` is drained and restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fragmentation {
    /// Share of the memory in use beyond what is expected that is too much.
    pub threshold: Share,
    /// For how long it must have been too much.
    pub lasting: TimeSpan,
    /// From a worker's coming up until its memory in use is what later readings are compared with.
    pub settle: TimeSpan,
    /// How long its requests in flight may take to finish.
    pub drain: TimeSpan,
    /// How long it may take to be ready again.
    pub ready: TimeSpan,
    /// From one restart of a worker to its next; doubles each time, up to `backoff_max`.
    pub backoff: TimeSpan,
    /// The longest pause between two restarts; who ran for so long begins anew with `backoff`.
    pub backoff_max: TimeSpan,
    /// Share of the memory that the cache takes as it fills; `0%` for engines that reserve it all
    /// when they start.
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

/// The request that is sent to a worker before it takes traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WarmUp {
    /// Its prompt.
    pub prompt: String,
    /// Tokens to generate.
    pub tokens: u32,
    /// How long the answer may take.
    pub timeout: TimeSpan,
}

impl Default for WarmUp {
    fn default() -> Self {
        let prompt = "Explain in one paragraph how a key-value cache speeds up text generation.";
        Self { prompt: prompt.to_owned(), tokens: 16, timeout: TimeSpan::from_secs(120) }
    }
}

/// Where a worker's memory can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// A page of metrics: of DCGM's exporter, one of `nvidia-smi`, the node exporter, or another.
    #[serde(serialize_with = "super::web_url::shown")]
    pub url: String,
    /// The metric of memory in use, where it is not one of those exporters'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// The metric of memory not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<String>,
    /// The metric of all memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// Labels that pick the worker's own devices, as in `{gpu: "0"}`; samples that fit are added.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// From one reading to the next.
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
    /// `overdraft supervise` runs it, and is told.
    Supervise(Hook),
    /// The listener there restarts it and answers 200 when the old process has ended, or 202 at once.
    Webhook(Hook),
    /// A program does it, and ends well when the old process has ended.
    Command(HookCommand),
}

/// A listener that restarts or starts a worker when told to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// `http://host:port`, for a webhook with its path.
    #[serde(serialize_with = "super::web_url::shown")]
    pub url: String,
    /// Sent as `authorization: Bearer …`. Best given as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// How long the answer may take.
    #[serde(default = "hook_timeout")]
    pub timeout: TimeSpan,
}

/// A program that restarts a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommand {
    /// The program and its arguments; no shell reads them.
    pub argv: Vec<String>,
    /// How long it may run.
    #[serde(default = "hook_timeout")]
    pub timeout: TimeSpan,
}

const fn hook_timeout() -> TimeSpan {
    TimeSpan::from_secs(120)
}
