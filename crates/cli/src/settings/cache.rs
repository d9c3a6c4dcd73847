//! Response cache settings: maps the sections `cache`, `responses` and `isolation` to the gateway's.

use overdraft_config as config;
use overdraft_core::response_cache::Reuse;
use overdraft_gateway::{
    CacheMode, CacheSettings, IsolationSettings, ResponsesSettings, SaltPolicy,
};
use overdraft_store::Secret;

/// The section `cache`.
pub(super) fn cache(configured: &config::Cache) -> CacheSettings {
    CacheSettings {
        mode: match configured.mode {
            config::CacheMode::Off => CacheMode::Off,
            config::CacheMode::Observe => CacheMode::Observe,
            config::CacheMode::On => CacheMode::On,
        },
        reuse: reuse(configured.reuse),
        memory_bytes: configured.memory.bytes(),
        entry_bytes: usize::try_from(configured.entry_max.bytes()).unwrap_or(usize::MAX),
        life: configured.ttl.duration(),
        shared: configured.shared,
        coalesce: configured.coalesce,
        known_fields: configured.known_fields.clone(),
        encryption_key: configured.encryption_key.as_ref().map(secret),
    }
}

/// The section `responses`.
pub(super) fn responses(configured: &config::Responses) -> ResponsesSettings {
    ResponsesSettings {
        memory_bytes: configured.memory.bytes(),
        entry_bytes: usize::try_from(configured.entry_max.bytes()).unwrap_or(usize::MAX),
        life: configured.ttl.duration(),
    }
}

/// The section `isolation`.
pub(super) fn isolation(configured: &config::Isolation) -> IsolationSettings {
    IsolationSettings {
        salt_secret: configured.salt_secret.as_ref().map(secret),
        strip: configured.strip.iter().cloned().collect(),
    }
}

/// Which answers are given again.
pub(super) const fn reuse(configured: config::Reuse) -> Reuse {
    match configured {
        config::Reuse::Off => Reuse::Off,
        config::Reuse::Deterministic => Reuse::Deterministic,
        config::Reuse::All => Reuse::All,
    }
}

/// Whether a worker is told salts.
pub(super) const fn salt(configured: config::CacheSalt) -> SaltPolicy {
    match configured {
        config::CacheSalt::Auto => SaltPolicy::Told,
        config::CacheSalt::Off => SaltPolicy::Untold,
    }
}

fn secret(configured: &config::Secret) -> Secret {
    Secret::new(configured.reveal())
}
