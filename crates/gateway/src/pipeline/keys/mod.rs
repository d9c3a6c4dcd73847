//! API keys: identify the tenant of a request and what it may do.
//!
//! A key is known by its SHA-256 alone: keys are long and random, so nothing slower is needed, and
//! the time that a look-up of the hash takes tells nothing about the key. With keys configured,
//! only requests that present one of them are served; without any, all are, and requests with the
//! same token, in whatever header it comes, belong to the same tenant.
//!
//! Where tokens are believed (`jwt/`), they come in the same headers, and a key is looked for first.
//!
//! Invariant: no key is stored, printed or logged.

mod budget;
mod priority;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use overdraft_core::admit::{Priority, Tenant};
use overdraft_core::response_cache::Reuse;
use overdraft_http::BodyOwner;
use overdraft_store::Revocations;
use overdraft_wire::{ApiError, ErrorKind};
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use self::budget::{Bill, Charge, Extent, Need};
pub use self::budget::{Budgets, Level, RetryAfter, Standing};
pub(crate) use self::priority::{URGENCY, urgency};
use super::jwt::{JwtRefused, JwtVerifier, is_token};
use crate::settings::{Budget, Door, KeyDigest, KeySettings, Routes};

/// What metrics call tenants that the configuration does not name.
pub(crate) const NAMELESS: &str = "other";

const BEARER: &str = "bearer ";

/// Where clients present a key besides `authorization`.
const PRESENTED: [&str; 2] = ["x-api-key", "api-key"];

/// A key, ready to be asked about.
#[derive(Debug)]
struct Key {
    settings: KeySettings,
    /// Stands for it where budgets are kept.
    number: u64,
    tenant: Tenant,
    realm: Realm,
    /// The tenant's name, for whoever keeps it.
    label: Arc<str>,
}

impl Key {
    fn new(settings: KeySettings) -> Self {
        Self {
            number: settings.digest.number(),
            tenant: Tenant(xxh3_64(settings.tenant.as_bytes())),
            realm: realm_of_tenant(&settings.tenant),
            label: settings.tenant.as_str().into(),
            settings,
        }
    }
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Keyring {
    keys: BTreeMap<KeyDigest, Arc<Key>>,
    door: Door,
}

impl Keyring {
    /// Puts the keys in a table.
    pub(crate) fn new(keys: &[KeySettings], door: Door) -> Self {
        let key = |settings: &KeySettings| (settings.digest, Arc::new(Key::new(settings.clone())));
        Self { keys: keys.iter().map(key).collect(), door }
    }

    /// The numbers of the keys, under which budgets are kept.
    pub(crate) fn numbers(&self) -> BTreeSet<u64> {
        self.keys.values().map(|key| key.number).collect()
    }

    /// Who sent a request with this head, at this time of the calendar.
    ///
    /// # Errors
    /// [`KeyRefused`] where keys are configured and none of them is presented, or one that is good no more.
    pub(crate) fn identify(
        &self,
        head: &HeaderMap,
        revocations: &Revocations,
        now: Timestamp,
    ) -> Result<Caller, KeyRefused> {
        if self.door == Door::OpenWithoutKeys && self.keys.is_empty() {
            // In whatever header: a client that changes its SDK stays the tenant that it was.
            let token = presented(head).next();
            let tenant = token.map_or(Tenant::default(), |token| Tenant(xxh3_64(token)));
            let realm = token.map(|token| realm(b"bearer", token));
            return Ok(Caller { key: None, tenant, realm });
        }
        let mut refused = KeyRefused::Unknown;
        for presented in presented(head) {
            let Some(key) = self.keys.get(&KeyDigest::of_bytes(presented)) else { continue };
            match key.settings.expires {
                Some(end) if end <= now => refused = KeyRefused::Expired(end),
                _ if revocations.is_revoked(key.settings.digest.bytes()) => {
                    refused = KeyRefused::Revoked;
                }
                _ => return Ok(Caller::of(key)),
            }
        }
        Err(refused)
    }
}

/// Who sent a request with a token in its head, in whatever header it comes; `None` where there is none.
pub(crate) async fn by_token(
    head: &HeaderMap,
    jwt: &JwtVerifier,
    now: Timestamp,
) -> Option<Result<Caller, JwtRefused>> {
    let token = presented(head).find(|presented| is_token(presented))?;
    let settings = jwt.verify(token, now).await;
    Some(settings.map(|settings| Caller::of(&Arc::new(Key::new(settings)))))
}

/// Why nobody is let in by the keys of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRefused {
    /// There is none, or nobody's.
    Unknown,
    /// It was good until then.
    Expired(Timestamp),
    /// It was taken back, over the store that gateways share.
    Revoked,
}

impl From<KeyRefused> for ApiError {
    fn from(refused: KeyRefused) -> Self {
        match refused {
            KeyRefused::Unknown => Self::invalid_api_key(),
            KeyRefused::Revoked => {
                let message = "the API key was revoked; send one that is in force";
                Self::new(ErrorKind::InvalidApiKey, message)
            }
            KeyRefused::Expired(end) => {
                let message = format!("the API key expired at `{end}`; send one that is in force");
                Self::new(ErrorKind::InvalidApiKey, message)
            }
        }
    }
}

/// Whose something is, where a mistake would show it to others: a cryptographic hash, unlike the number
/// that queues and routing go by.
pub(crate) type Realm = [u8; 32];

/// The realm of the tenant that the configuration calls so.
pub(crate) fn realm_of_tenant(name: &str) -> Realm {
    realm(b"tenant", name.as_bytes())
}

fn realm(kind: &[u8], name: &[u8]) -> Realm {
    Sha256::new().chain_update(kind).chain_update([0]).chain_update(name).finalize().into()
}

/// Every key that a head presents.
fn presented(head: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    bearer(head).into_iter().chain(PRESENTED.iter().filter_map(|name| only(head, name)))
}

fn bearer(head: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = only(head, AUTHORIZATION.as_str())?.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER.as_bytes()).then(|| token.trim_ascii())
}

/// The value of a header that came once.
fn only<'a>(head: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = head.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// None where none is needed.
    key: Option<Arc<Key>>,
    /// As a number.
    pub(crate) tenant: Tenant,
    /// None for whoever presents nothing.
    realm: Option<Realm>,
}

impl Caller {
    fn of(key: &Arc<Key>) -> Self {
        Self { tenant: key.tenant, realm: Some(key.realm), key: Some(Arc::clone(key)) }
    }

    /// Whoever runs the gateway: may see everything.
    pub(crate) const fn operator() -> Self {
        Self { key: None, tenant: Tenant(0), realm: None }
    }

    /// Whose its requests are.
    pub(crate) fn realm(&self) -> Realm {
        self.realm.unwrap_or_default()
    }

    /// Whether it is one of all who present nothing.
    pub(crate) const fn is_nobody(&self) -> bool {
        self.realm.is_none()
    }

    /// In whose share its bodies are that come from `peer`. A tenant is one by its key or by a token that was verified: a
    /// token that is not looked at may be another one each time.
    pub(crate) fn body_owner(&self, peer: IpAddr) -> BodyOwner {
        let key = self.key.as_ref();
        key.map_or(BodyOwner::Peer(peer), |key| BodyOwner::Tenant(key.realm))
    }

    /// Which answers are given again to its requests, if its key says so.
    pub(crate) fn reuse(&self) -> Option<Reuse> {
        self.key.as_ref().and_then(|key| key.settings.reuse)
    }

    /// How long its answers may take that do not say so, if its key says.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.key.as_ref().and_then(|key| key.settings.deadline)
    }

    /// The tenant's name, where the configuration or a token has it.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.key.as_ref().map(|key| Arc::clone(&key.label))
    }

    /// The tenant as metrics call it, which bound how many they tell apart.
    pub(crate) fn label(&self) -> &str {
        self.key.as_ref().map_or(NAMELESS, |key| &key.label)
    }

    /// Whether it may ask for the model that it calls `named`.
    pub(crate) fn may_ask(&self, routes: &Routes, named: &str) -> bool {
        let models = self.key.as_ref().and_then(|key| key.settings.models.as_ref());
        models.is_none_or(|models| {
            let behind = routes.model_behind(named);
            models.contains(named)
                || behind.is_some_and(|model| models.contains(model))
                || models.iter().any(|listed| routes.stands_for(listed, named))
        })
    }

    /// Whether a small model may answer it.
    pub(crate) fn may_cascade(&self) -> bool {
        self.key.as_ref().is_none_or(|key| key.settings.cascade)
    }

    /// Whether there are models it may not ask for.
    pub(crate) fn is_restricted(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.settings.models.is_some())
    }

    /// The priority of requests that do not say, and the highest they may have.
    pub(crate) fn priorities(&self) -> (Priority, Priority) {
        let of = |key: &Arc<Key>| (key.settings.priority, key.settings.priority_max);
        self.key.as_ref().map_or((Priority::Default, Priority::Priority), of)
    }

    /// What it may spend, and the number under which that is kept; `None` where there is no limit.
    pub(crate) fn budget(&self) -> Option<(u64, Budget)> {
        let key = self.key.as_ref()?;
        (!key.settings.budget.is_unlimited()).then_some((key.number, key.settings.budget))
    }
}
