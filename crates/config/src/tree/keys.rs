//! API key section: keys with tenants, priorities and rate limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::Reuse;
use super::secret::Secret;
use crate::quantity::{TimeSpan, Timestamp};

/// An API key of clients, and its permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key itself, best given as `${NAME}`; either this or `key_sha256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// SHA-256 of the key in hexadecimal, so that the file holds no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_sha256: Option<String>,
    /// Tenant of the key. Tenants share the queue fairly, and metrics are counted by tenant.
    pub tenant: String,
    /// Name of the key, to tell the keys of one tenant apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time from which the key is refused, as in `2027-01-31T00:00:00Z`; without it, the key does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// Priority of requests that name none.
    #[serde(default)]
    pub priority: Priority,
    /// Highest priority of requests; a request for a higher one gets this one.
    #[serde(default = "most_urgent")]
    pub priority_max: Priority,
    /// Models or aliases that the key may use; without this list, all. Other models do not exist for the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Whether a cascade's draft model may answer its requests.
    #[serde(default = "yes")]
    pub cascade: bool,
    /// Maximum requests a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Maximum tokens a minute, of prompts and answers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// Stored answers that its requests may get, instead of the model's setting or `cache.reuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reuse>,
    /// Deadline of answers to requests that name none in `x-overdraft-deadline-ms`. The time counts from the arrival
    /// of the request's head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<TimeSpan>,
}

impl Key {
    /// One of `tenant` that is known by its SHA-256 and may do everything.
    pub fn hashed(key_sha256: impl Into<String>, tenant: impl Into<String>) -> Self {
        Self {
            key: None,
            key_sha256: Some(key_sha256.into()),
            tenant: tenant.into(),
            name: None,
            expires: None,
            priority: Priority::default(),
            priority_max: most_urgent(),
            models: None,
            cascade: yes(),
            requests_per_minute: None,
            tokens_per_minute: None,
            cache: None,
            deadline: None,
        }
    }

    /// Its SHA-256 in small hexadecimal digits; empty where it has neither key nor hash.
    pub fn digest(&self) -> String {
        match (&self.key, &self.key_sha256) {
            (Some(key), _) => {
                format!("{:x}", Sha256::digest(key.reveal()))
            }
            (None, Some(digest)) => digest.to_lowercase(),
            (None, None) => String::new(),
        }
    }
}

const fn yes() -> bool {
    true
}

pub(super) const fn most_urgent() -> Priority {
    Priority::Priority
}

/// Priority of a request, the lowest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// May wait, and is refused first.
    Flex,
    /// A request of priority `default`.
    #[default]
    Default,
    /// Goes first, and is refused last.
    Priority,
}

impl Priority {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Default => "default",
            Self::Priority => "priority",
        }
    }
}
