//! API key validation: rejects invalid or duplicate keys without printing them.
//!
//! No message repeats a key, because keys are secrets.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use crate::error::did_you_mean;
use crate::node::Step;
use crate::tree::{Config, Key};

/// Maximum keys: each request looks its key up in a table of this size.
const KEYS_MAX: usize = 10_000;

/// Maximum tenants, because each has metrics of its own.
const TENANTS_MAX: usize = 1_000;

/// Characters of a key at most.
const KEY_CHARACTERS_MAX: usize = 512;

/// Characters of a tenant's or a key's name at most.
const NAME_CHARACTERS_MAX: usize = 64;

/// What metrics call tenants that have no name.
const NAMELESS: [&str; 2] = ["anonymous", "other"];

const SHA256_DIGITS: usize = 64;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let tenants: BTreeSet<&str> = config.keys.iter().map(|key| key.tenant.as_str()).collect();
    for (count, max, what) in
        [(config.keys.len(), KEYS_MAX, "keys"), (tenants.len(), TENANTS_MAX, "tenants")]
    {
        if max < count {
            let message = format!("{count} {what} are configured");
            findings.key(&path!["keys"], message, format!("expected at most {max}"));
        }
    }
    let mut seen = BTreeMap::new();
    for (index, key) in config.keys.iter().enumerate() {
        secret(key, index, &mut seen, findings);
        names(key, index, findings);
        priority(key, index, findings);
        budgets(key, index, findings);
        models(config, key, index, findings);
    }
}

fn secret(
    key: &Key,
    index: usize,
    seen: &mut BTreeMap<(&'static str, String), usize>,
    findings: &mut Findings<'_>,
) {
    let expected = "expected either `key` or `key_sha256`";
    let (at, said) = match (&key.key, &key.key_sha256) {
        (None, None) => {
            findings.value(&path!["keys", index], format!("`keys[{index}]` has no key"), expected);
            return;
        }
        (Some(_), Some(_)) => {
            let path = path!["keys", index, "key_sha256"];
            findings.key(&path, format!("`keys[{index}]` has its key twice"), expected);
            return;
        }
        (Some(secret), None) => {
            let text = secret.reveal();
            let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
            if text.is_empty() || !printable || KEY_CHARACTERS_MAX < text.len() {
                let message = format!("`keys[{index}].key` cannot be presented in a header");
                let expected = format!(
                    "expected 1 to {KEY_CHARACTERS_MAX} printable ASCII characters without spaces"
                );
                findings.value(&path!["keys", index, "key"], message, expected);
            }
            ("key", text.to_owned())
        }
        (None, Some(digest)) => {
            let hexadecimal = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if digest.len() != SHA256_DIGITS || !hexadecimal {
                let message = format!("`keys[{index}].key_sha256` is not a SHA-256");
                let expected = "expected 64 hexadecimal digits, as `printf %s KEY | sha256sum` \
                                prints them";
                findings.value(&path!["keys", index, "key_sha256"], message, expected);
            }
            ("key_sha256", digest.to_lowercase())
        }
    };
    if let Some(first) = seen.get(&(at, said.clone())) {
        let line = findings.line_of(&path!["keys", *first]);
        let message = format!("`keys[{index}]` has the key of another, on {line}");
        findings.value(&path!["keys", index, at], message, "expected each key once");
    } else {
        seen.insert((at, said), index);
    }
}

fn names(key: &Key, index: usize, findings: &mut Findings<'_>) {
    let named = |name: &str| {
        let printable = name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        printable && !name.trim().is_empty() && name.len() <= NAME_CHARACTERS_MAX
    };
    let tenant = path!["keys", index, "tenant"];
    let expected = format!("expected 1 to {NAME_CHARACTERS_MAX} printable ASCII characters");
    if !named(&key.tenant) {
        findings.value(
            &tenant,
            format!("`{}` is not a tenant's name", key.tenant.escape_debug()),
            expected,
        );
    } else if NAMELESS.contains(&key.tenant.as_str()) {
        let message = format!("`{}` is what tenants without a name are called", key.tenant);
        findings.value(&tenant, message, "expected a name of its own");
    } else if let Some(name) = key.name.as_deref().filter(|name| !named(name)) {
        let path = path!["keys", index, "name"];
        findings.value(&path, format!("`{}` is not a key's name", name.escape_debug()), expected);
    }
}

fn priority(key: &Key, index: usize, findings: &mut Findings<'_>) {
    if key.priority_max < key.priority {
        let (own, most) = (key.priority.name(), key.priority_max.name());
        let message = format!("its requests would be `{own}`, and may be `{most}` at most");
        let expected = "expected `priority_max` to be at least `priority`";
        findings.value(&path!["keys", index, "priority_max"], message, expected);
    }
}

fn budgets(key: &Key, index: usize, findings: &mut Findings<'_>) {
    let budgets = [
        ("requests_per_minute", key.requests_per_minute),
        ("tokens_per_minute", key.tokens_per_minute),
    ];
    for (name, budget) in budgets {
        if budget == Some(0) {
            let message = format!("`keys[{index}].{name}` is `0`, which refuses everything");
            let expected = "expected at least 1; leave it out for no limit";
            findings.value(&path!["keys", index, name], message, expected);
        }
    }
}

/// Where every worker says what it serves, a model that nobody serves is a slip.
fn models(config: &Config, key: &Key, index: usize, findings: &mut Findings<'_>) {
    let Some(models) = &key.models else { return };
    if models.is_empty() {
        let path = path!["keys", index, "models"];
        let message = format!("`keys[{index}].models` is empty, which refuses everything");
        findings.value(&path, message, "expected a model; leave it out to allow all");
    }
    let told: Option<Vec<&str>> =
        config.workers.iter().map(|worker| worker.model.as_deref()).collect();
    let Some(mut served) = told.filter(|served| !served.is_empty()) else { return };
    if !config.discovery.is_empty() {
        return;
    }
    served.extend(config.models.values().flat_map(|own| own.aliases.iter().map(String::as_str)));
    served.extend(config.cascades.keys().map(String::as_str));
    for (place, model) in models.iter().enumerate() {
        if !served.contains(&model.as_str()) {
            let meant = did_you_mean(model, &served);
            let message = format!("no worker serves the model `{model}`{meant}");
            let path = path!["keys", index, "models", place];
            findings.value(&path, message, "expected a model or an alias");
        }
    }
}
