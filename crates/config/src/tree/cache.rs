//! Response cache and tenant isolation sections.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use crate::quantity::{ByteSize, TimeSpan};

/// Whether answers are given again to requests that could not be told apart. `cache: {mode: on}` is
/// all it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// `off`; `observe` counts how often an answer could have been given again; `on` gives it.
    pub mode: CacheMode,
    /// Which answers, where neither the model nor the key says otherwise: `deterministic` for requests
    /// with a temperature of 0 or a seed, `all` for any, `off` for none. A request may ask for
    /// itself with `x-overdraft-cache: on`.
    pub reuse: Reuse,
    /// How much is kept in this gateway's memory.
    pub memory: ByteSize,
    /// How large one answer may be.
    pub entry_max: ByteSize,
    /// For how long an answer may be given again; at most 30 days.
    pub ttl: TimeSpan,
    /// Whether gateways that share a store share answers too.
    pub shared: bool,
    /// Whether equal requests at the same time are asked of a worker once.
    pub coalesce: bool,
    /// Fields of requests, beside OpenAI's and vLLM's own, that may be cached with; they enter the
    /// key. Any other field that is unknown keeps a request away from the cache.
    pub known_fields: BTreeSet<String>,
    /// What answers are encrypted with at the store, each tenant's by a key of its own. Best given as
    /// `${NAME}`. What was encrypted by another is not given again.
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

/// Whether answers are given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// No.
    #[default]
    Off,
    /// No, but it is counted how often one could have been.
    Observe,
    /// Yes.
    On,
}

/// Which answers are given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// None.
    Off,
    /// Those to requests with a temperature of 0 or a seed.
    #[default]
    Deterministic,
    /// All.
    All,
}

/// What tenants share at workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Isolation {
    /// What cache salts are made with, so that no tenant finds out by its waiting what another asked.
    /// Drawn at the start where it is not given; all gateways before the same workers need the same.
    /// Best given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salt_secret: Option<Secret>,
    /// Fields of requests that no worker is told, beside `priority`.
    pub strip: BTreeSet<String>,
}

impl Default for Isolation {
    fn default() -> Self {
        let strip = ["kv_transfer_params", "prompt_logprobs", "request_id", "vllm_xargs"];
        Self { salt_secret: None, strip: strip.map(str::to_owned).into_iter().collect() }
    }
}

/// Whether a worker is told cache salts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheSalt {
    /// It is.
    #[default]
    Auto,
    /// It is not, for it refuses fields that it does not know.
    Off,
}
