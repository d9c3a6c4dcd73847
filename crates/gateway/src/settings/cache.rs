//! Response cache settings: mode, size, TTL, sharing and single flight.

use std::collections::BTreeSet;
use std::time::Duration;

use overdraft_core::response_cache::Reuse;
use overdraft_store::Secret;

/// Whether answers are given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// No, and nothing is kept.
    #[default]
    Off,
    /// No, but it is counted how often one could have been.
    Observe,
    /// Yes.
    On,
}

/// How answers are kept and given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Whether at all.
    pub mode: CacheMode,
    /// Which ones, where neither the model nor the key says anything else.
    pub reuse: Reuse,
    /// Bytes kept in this gateway's memory.
    pub memory_bytes: u64,
    /// Bytes of one answer at most.
    pub entry_bytes: usize,
    /// For how long an answer may be given again.
    pub life: Duration,
    /// Whether other gateways share them, where there is a store.
    pub shared: bool,
    /// Whether equal requests at the same time are asked once.
    pub coalesce: bool,
    /// Fields of requests that enter the key beside those that are known.
    pub known_fields: BTreeSet<String>,
    /// What entries are sealed with in the store.
    pub encryption_key: Option<Secret>,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            mode: CacheMode::Off,
            reuse: Reuse::Deterministic,
            memory_bytes: 256 * 1024 * 1024,
            entry_bytes: 1024 * 1024,
            life: Duration::from_hours(1),
            shared: true,
            coalesce: true,
            known_fields: BTreeSet::new(),
            encryption_key: None,
        }
    }
}
