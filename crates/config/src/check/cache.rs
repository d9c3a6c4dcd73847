//! Response cache validation: rejects cache settings that cannot work.

use std::time::Duration;

use super::findings::Findings;
use crate::node::Step;
use crate::tree::{CacheMode, Config, Secret};

/// Maximum TTL of an answer.
const TTL_MAX: Duration = Duration::from_hours(30 * 24);

/// Minimum characters of a secret.
const SECRET_CHARACTERS_MIN: usize = 16;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let cache = &config.cache;
    if cache.ttl.is_zero() || TTL_MAX < cache.ttl.duration() {
        let message = format!("an answer cannot be kept for `{}`", cache.ttl);
        findings.value(
            &path!["cache", "ttl"],
            message,
            "expected more than `0s` and at most 30 days",
        );
    }
    if cache.entry_max.bytes() == 0 {
        let path = path!["cache", "entry_max"];
        findings.value(&path, "an answer of `0B` says nothing", "expected a size as in `1MiB`");
    }
    if cache.memory.bytes() < cache.entry_max.bytes() && cache.mode != CacheMode::Off {
        let message = format!(
            "one answer of `{}` would not fit into a memory of `{}`",
            cache.entry_max, cache.memory
        );
        let expected = "expected `cache.memory` to hold at least one answer of `entry_max`";
        findings.value(&path!["cache", "memory"], message, expected);
    }
    secret(cache.encryption_key.as_ref(), ["cache", "encryption_key"], findings);
    secret(config.isolation.salt_secret.as_ref(), ["isolation", "salt_secret"], findings);
}

/// Never repeats it.
fn secret(secret: Option<&Secret>, [section, key]: [&str; 2], findings: &mut Findings<'_>) {
    let Some(secret) = secret else { return };
    if secret.reveal().chars().count() < SECRET_CHARACTERS_MIN {
        let message = format!("`{section}.{key}` is too short to be a secret");
        let expected = format!(
            "expected at least {SECRET_CHARACTERS_MIN} characters, as `openssl rand -hex 32` prints"
        );
        findings.value(&path![section, key], message, expected);
    }
}
