//! Effective configuration and JSON Schema: what is in force, and what can be set.
//!
//! The effective view is the whole tree with every default filled in and every secret redacted, as are the queries of
//! addresses; the schema describes the tree, for editors and for the reference.

use crate::tree::{Config, Store};

impl Config {
    /// The JSON Schema (2020-12) of a configuration file.
    pub fn schema() -> serde_json::Value {
        serde_json::Value::from(schemars::schema_for!(Self))
    }

    /// The whole configuration as YAML: defaults filled in, secrets redacted.
    pub fn effective_yaml(&self) -> String {
        serde_saphyr::to_string(self).expect("a tree of strings, numbers and tables is YAML")
    }

    /// The whole configuration as JSON: defaults filled in, secrets blotted out.
    pub fn effective_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a tree of strings, numbers and tables is JSON")
    }

    /// The keys at the top whose value differs in `next`, in the order of the reference.
    pub fn changes(&self, next: &Self) -> Vec<String> {
        let (old, new) = (self.effective_json(), next.effective_json());
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return Vec::new() };
        // What is shown has no secrets, so sections that hold some are told apart by themselves.
        let secretive = [
            ("admin", self.admin != next.admin),
            ("cache", self.cache != next.cache),
            ("discovery", self.discovery != next.discovery),
            ("isolation", self.isolation != next.isolation),
            ("jwt", self.jwt != next.jwt),
            ("keys", self.keys != next.keys),
            ("keys_file", self.file_keys != next.file_keys),
            ("models", self.models != next.models),
            ("store", self.store != next.store),
            ("termination", self.termination != next.termination),
            ("tracing", self.tracing != next.tracing),
            ("workers", self.workers != next.workers),
        ];
        let is_secret = |key: &str| secretive.contains(&(key, true));
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| old.get(*key) != new.get(*key) || is_secret(key));
        keys.into_iter().cloned().collect()
    }

    /// Those of the changes in `next` that a running process cannot follow, or not wholly. Kept responses and seals go
    /// by the first `store`, key of the cache and secret of salts until it ends.
    pub fn restart_needed(&self, next: &Self) -> Vec<&'static str> {
        let (limits, next_limits) = (&self.limits, &next.limits);
        let (timeouts, next_timeouts) = (&self.timeouts, &next.timeouts);
        // How often gateways share is followed; where they do, responses have been told once.
        let Store { board_interval, share_interval, .. } = self.store;
        let store = Store { board_interval, share_interval, ..next.store.clone() };
        let changed = [
            ("listen", self.listen != next.listen),
            // What is in its files is read again without one.
            ("tls", self.tls != next.tls),
            ("http2", self.http2 != next.http2),
            ("admin.listen", self.admin.listen != next.admin.listen),
            ("limits.connections", limits.connections_max() != next_limits.connections_max()),
            ("limits.body_bytes", limits.body_bytes != next_limits.body_bytes),
            ("limits.bodies_bytes", limits.bodies_bytes != next_limits.bodies_bytes),
            ("shutdown", self.shutdown != next.shutdown),
            ("timeouts.connect", timeouts.connect != next_timeouts.connect),
            ("timeouts.idle", timeouts.idle != next_timeouts.idle),
            ("timeouts.body", timeouts.body != next_timeouts.body),
            ("timeouts.client_idle", timeouts.client_idle != next_timeouts.client_idle),
            ("timeouts.client_stall", timeouts.client_stall != next_timeouts.client_stall),
            ("tracing", self.tracing != next.tracing),
            ("responses", self.responses != next.responses),
            ("store", self.store != store),
            ("cache.encryption_key", self.cache.encryption_key != next.cache.encryption_key),
            ("isolation.salt_secret", self.isolation.salt_secret != next.isolation.salt_secret),
            ("termination", self.termination != next.termination),
            ("routing.prefix", self.routing.prefix != next.routing.prefix),
            ("scaling.listen", self.scaling.listen != next.scaling.listen),
        ];
        changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(key, _)| key).collect()
    }
}
