//! Settings of API keys: whose each is, and what it may do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use jiff::Timestamp;
use overdraft_core::admit::Priority;
use overdraft_core::response_cache::Reuse;
pub use overdraft_store::Limits as Budget;
use sha2::{Digest, Sha256};

use super::error::GatewayError;

/// Keys at most: each has budgets in memory.
pub const KEYS_MAX: usize = 10_000;

/// Who is served without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// Everybody, where no keys are configured.
    #[default]
    OpenWithoutKeys,
    /// Nobody: keys come and go, and the last one that goes opens nothing.
    Closed,
}

/// A key as it is kept: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Of the key itself, which is then forgotten.
    pub fn of(key: &str) -> Self {
        Self::of_bytes(key.as_bytes())
    }

    /// The same of a key that need not be text.
    pub(crate) fn of_bytes(key: &[u8]) -> Self {
        Self(Sha256::digest(key).into())
    }

    /// From 64 hexadecimal digits; `None` where they are not.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        digits.try_into().ok().map(Self)
    }

    /// The hash itself.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// In 64 small hexadecimal digits.
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// A number that stands for it, equal in every gateway.
    pub(crate) fn number(&self) -> u64 {
        let (head, _) = self.0.split_first_chunk().expect("there are 32 bytes");
        u64::from_le_bytes(*head)
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

/// One key and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// The key.
    pub digest: KeyDigest,
    /// Whose it is; tenants share the queue fairly.
    pub tenant: String,
    /// What it is called among the tenant's keys.
    pub name: Option<String>,
    /// From when on it is refused; `None`: never.
    pub expires: Option<Timestamp>,
    /// The priority of requests that do not say.
    pub priority: Priority,
    /// The highest that its requests may have; what asks for more gets this.
    pub priority_max: Priority,
    /// The models and aliases it may ask for; others do not exist for it. `None`: all.
    pub models: Option<BTreeSet<String>>,
    /// Whether a small model may answer its requests.
    pub cascade: bool,
    /// What it may spend.
    pub budget: Budget,
    /// Which answers are given again to its requests, if not as the model says.
    pub reuse: Option<Reuse>,
    /// When the answers to its requests must have ended that do not say so.
    pub deadline: Option<Duration>,
}

impl KeySettings {
    /// A key of `tenant` that may do everything.
    pub fn new(digest: KeyDigest, tenant: impl Into<String>) -> Self {
        Self {
            digest,
            tenant: tenant.into(),
            name: None,
            expires: None,
            priority: Priority::Default,
            priority_max: Priority::Priority,
            models: None,
            cascade: true,
            budget: Budget::default(),
            reuse: None,
            deadline: None,
        }
    }
}

/// Refuses keys that cannot be told apart, and too many.
pub(super) fn check(keys: &[KeySettings]) -> Result<(), GatewayError> {
    if KEYS_MAX < keys.len() {
        return Err(GatewayError::TooManyKeys { count: keys.len() });
    }
    let mut seen = BTreeMap::new();
    for key in keys {
        if let Some(tenant) = seen.insert(key.digest, &key.tenant) {
            let (one, other) = (tenant.clone(), key.tenant.clone());
            return Err(GatewayError::DuplicateKey { one, other });
        }
    }
    Ok(())
}
