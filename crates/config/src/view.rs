//! Effective configuration and JSON Schema: what is in force, and what can be set.
//!
//! The effective view is the whole tree with every default filled in and every secret redacted; the
//! schema describes the tree, for editors and for the reference.

use crate::tree::Config;

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
            ("keys", self.keys != next.keys),
            ("keys_file", self.file_keys != next.file_keys),
            ("models", self.models != next.models),
            ("store", self.store != next.store),
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

    /// Those of the changes in `next` that a running process cannot follow.
    pub fn restart_needed(&self, next: &Self) -> Vec<&'static str> {
        let mut named = Vec::new();
        if self.listen != next.listen {
            named.push("listen");
        }
        // What is in its files is read again without one.
        if self.tls != next.tls {
            named.push("tls");
        }
        if self.http2 != next.http2 {
            named.push("http2");
        }
        if self.admin.listen != next.admin.listen {
            named.push("admin.listen");
        }
        if self.limits.connections != next.limits.connections {
            named.push("limits.connections");
        }
        if self.shutdown != next.shutdown {
            named.push("shutdown");
        }
        let patience = |config: &Self| (config.timeouts.connect, config.timeouts.idle);
        if patience(self) != patience(next) {
            named.push("timeouts");
        }
        if self.tracing != next.tracing {
            named.push("tracing");
        }
        if self.responses != next.responses {
            named.push("responses");
        }
        if self.termination != next.termination {
            named.push("termination");
        }
        if self.routing.prefix != next.routing.prefix {
            named.push("routing.prefix");
        }
        if self.scaling.listen != next.scaling.listen {
            named.push("scaling.listen");
        }
        named
    }
}
