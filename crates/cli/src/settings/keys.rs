//! API key settings: maps the keys, their priorities and rate limits to the gateway's.

use std::num::NonZeroU32;

use overdraft_config as config;
use overdraft_core::admit::Priority;
use overdraft_gateway::{Budget, Door, KeyDigest, KeySettings};

/// One of the keys; only its hash leaves this function.
pub(super) fn key(configured: &config::Key) -> Option<KeySettings> {
    let plain = configured.key.as_ref().map(|key| KeyDigest::of(key.reveal()));
    // The configuration was checked: there is one of them, and it is a digest.
    let digest = plain.or_else(|| KeyDigest::from_hex(configured.key_sha256.as_deref()?))?;
    let mut key = KeySettings::new(digest, configured.tenant.clone());
    key.name.clone_from(&configured.name);
    key.expires = configured.expires.map(|end| end.0);
    key.priority = priority(configured.priority);
    key.priority_max = priority(configured.priority_max);
    key.models = configured.models.as_ref().map(|models| models.iter().cloned().collect());
    key.cascade = configured.cascade;
    key.budget = Budget {
        requests_per_minute: configured.requests_per_minute.and_then(NonZeroU32::new),
        tokens_per_minute: configured.tokens_per_minute.and_then(NonZeroU32::new),
    };
    key.reuse = configured.cache.map(super::cache::reuse);
    key.deadline = configured.deadline.map(config::TimeSpan::duration);
    Some(key)
}

/// A file of keys may be empty for a while, and lets nobody in then.
pub(super) const fn door(config: &config::Config) -> Door {
    if config.keys_file.is_some() { Door::Closed } else { Door::OpenWithoutKeys }
}

pub(super) const fn priority(configured: config::Priority) -> Priority {
    match configured {
        config::Priority::Flex => Priority::Flex,
        config::Priority::Default => Priority::Default,
        config::Priority::Priority => Priority::Priority,
    }
}
