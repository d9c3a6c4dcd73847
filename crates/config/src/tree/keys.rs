//! API key section: keys with tenants, priorities and rate limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::Reuse;
use super::secret::Secret;
use crate::quantity::{TimeSpan, Timestamp};

/// A key that clients present, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The key itself, best given as `${NAME}`; either this or `key_sha256`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// Its SHA-256 in hexadecimal, so that the file holds no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_sha256: Option<String>,
    /// Whose it is. Tenants share the queue fairly, and metrics are told apart by them.
    pub tenant: String,
    /// What it is called where one key of a tenant is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From when on it is refused, as in `2027-01-31T00:00:00Z`; without it, it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// How urgent its requests are that do not say.
    #[serde(default)]
    pub priority: Priority,
    /// The most urgent that its requests may be; what asks for more gets this.
    #[serde(default = "most_urgent")]
    pub priority_max: Priority,
    /// The models or aliases it may ask for; without it all. Others do not exist for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Whether a draft model may answer its requests, where there is a cascade.
    #[serde(default = "yes")]
    pub cascade: bool,
    /// Requests a minute at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute at most, of prompts and answers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// Which answers are given again to its requests, instead of the model's or `cache.reuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Reuse>,
    /// When the answers to its requests must have ended that do not say so in `x-overdraft-deadline-ms`, from when
    /// the head of the request came.
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

/// How urgent a request is, the least urgent first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// May wait, and is refused first.
    Flex,
    /// As most are.
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
