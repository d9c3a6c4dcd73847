//! Response cache and tenant isolation sections.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::quantity::{ByteSize, TimeSpan};

/// Response cache, which gives stored answers again to equal requests. `cache: {mode: on}` is enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// `off`; `observe` only counts how often a stored answer could have been given; `on` gives it.
    pub mode: CacheMode,
    /// Answers that are stored and given again, if neither the model nor the key says otherwise: `deterministic` for
    /// requests with a temperature of 0 or a seed, `all` for all requests, `off` for none. A request may ask for the
    /// cache with `x-overdraft-cache: on`.
    pub reuse: Reuse,
    /// Maximum size in this gateway's memory.
    pub memory: ByteSize,
    /// Maximum size of one answer.
    pub entry_max: ByteSize,
    /// How long an answer may be given again; at most 30 days.
    pub ttl: TimeSpan,
    /// Whether gateways with a common store share answers too.
    pub shared: bool,
    /// Whether equal requests at the same time are sent to a worker once (single flight).
    pub coalesce: bool,
    /// Further fields of requests, beside OpenAI's and vLLM's, that become part of the cache's key. A request with
    /// any other unknown field bypasses the cache.
    pub known_fields: BTreeSet<String>,
    /// Secret for the encryption of answers in the store; each tenant's key is derived from it. Best given as
    /// `${NAME}`. Answers that were encrypted with another secret are not given again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<Secret>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            mode: CacheMode::Off,
            reuse: Reuse::Deterministic,
            memory: ByteSize::from_bytes(256 << 20),
            entry_max: ByteSize::from_bytes(1 << 20),
            ttl: TimeSpan::from_secs(3_600),
            shared: true,
            coalesce: true,
            known_fields: BTreeSet::new(),
            encryption_key: None,
        }
    }
}

/// Whether stored answers are given again (response cache).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// No stored answer is given.
    #[default]
    Off,
    /// No stored answer is given, and the metrics count how often one could have been.
    Observe,
    /// Stored answers are given.
    On,
}

/// Stored answers that are given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// None.
    Off,
    /// Answers to requests with a temperature of 0 or a seed.
    #[default]
    Deterministic,
    /// All answers.
    All,
}

/// Isolation of tenants at workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Isolation {
    /// Secret for cache salts, so that no tenant can learn from its waiting time what another tenant asked. Without
    /// it, a random secret is drawn at the start. All gateways before the same workers need the same secret. Best
    /// given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salt_secret: Option<Secret>,
    /// Fields of requests that no worker gets, beside `priority`.
    pub strip: BTreeSet<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        let strip = ["kv_transfer_params", "prompt_logprobs", "request_id", "vllm_xargs"];
        Self { salt_secret: None, strip: strip.map(str::to_owned).into_iter().collect() }
    }
}

/// Whether a worker gets cache salts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheSalt {
    /// The worker gets salts.
    #[default]
    Auto,
    /// The worker gets no salts, because it refuses unknown fields.
    Off,
}
