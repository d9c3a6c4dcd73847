//! API key validation: rejects invalid or duplicate keys without printing them.
//!
//! No message repeats a key, because keys are secrets.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use crate::error::{ConfigError, did_you_mean};
use crate::node::{Node, Step};
use crate::place::Source;
use crate::quantity::TimeSpan;
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
    let mut seen = Seen::default();
    each(&config.keys, &mut seen, findings);
    for (index, key) in config.keys.iter().enumerate() {
        models(config, key, index, findings);
    }
    seen.counted(findings);
}

/// Everything that is wrong with the keys of a file, beside `others` of the configuration. What workers serve is not
/// looked at: who writes that file may be somebody else, and a model that nobody serves does no harm there.
pub(crate) fn check_file(
    keys: &[Key],
    others: &[Key],
    root: &Node,
    source: &Source,
) -> Vec<ConfigError> {
    let mut findings = Findings::new(root, source);
    let mut seen = Seen::of(others);
    for (index, key) in keys.iter().enumerate() {
        if key.key.is_some() {
            let message = format!("`keys[{index}].key` holds a key in clear");
            let expected = "expected `key_sha256`; whoever has read the file may have the key, so make \
                            another one with `overdraft keys new`";
            findings.key(&path!["keys", index, "key"], message, expected);
        }
    }
    each(keys, &mut seen, &mut findings);
    seen.counted(&mut findings);
    findings.in_order()
}

fn each(keys: &[Key], seen: &mut Seen, findings: &mut Findings<'_>) {
    for (index, key) in keys.iter().enumerate() {
        secret(key, index, seen, findings);
        seen.tenants.insert(key.tenant.clone());
        names(key, index, findings);
        priority(key, index, findings);
        budgets(key, index, findings);
        deadline(key, index, findings);
        for (place, model) in key.models.iter().flatten().enumerate() {
            if !is_name(model) {
                let path = path!["keys", index, "models", place];
                let message = format!("`{}` is not a model's name", model.escape_debug());
                findings.value(&path, message, "expected one without blanks at its ends");
            }
        }
        if key.models.as_ref().is_some_and(Vec::is_empty) {
            let path = path!["keys", index, "models"];
            let message = format!("`keys[{index}].models` is empty, which refuses everything");
            findings.value(&path, message, "expected a model; leave it out to allow all");
        }
    }
}

/// Whether a model may be called so: a blank beside a comma would make another name, which nobody serves.
fn is_name(model: &str) -> bool {
    !model.is_empty() && model.trim() == model
}

/// The keys and tenants that have been met.
#[derive(Default)]
struct Seen {
    /// By their hashes; `None` for those that stand in another file.
    keys: BTreeMap<String, Option<usize>>,
    count: usize,
    tenants: BTreeSet<String>,
}

impl Seen {
    fn of(others: &[Key]) -> Self {
        let keys = others.iter().map(|key| (key.digest(), None)).collect();
        let tenants = others.iter().map(|key| key.tenant.clone()).collect();
        Self { keys, count: others.len(), tenants }
    }

    /// Says where there are more than fit.
    fn counted(&self, findings: &mut Findings<'_>) {
        let counts = [(self.count, KEYS_MAX, "keys"), (self.tenants.len(), TENANTS_MAX, "tenants")];
        for (count, max, what) in counts {
            if max < count {
                let message = format!("{count} {what} are configured");
                findings.key(&path!["keys"], message, format!("expected at most {max}"));
            }
        }
    }
}

fn secret(key: &Key, index: usize, seen: &mut Seen, findings: &mut Findings<'_>) {
    seen.count += 1;
    let expected = "expected either `key` or `key_sha256`";
    let at = match (&key.key, &key.key_sha256) {
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
            "key"
        }
        (None, Some(digest)) => {
            let hexadecimal = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            if digest.len() != SHA256_DIGITS || !hexadecimal {
                let message = format!("`keys[{index}].key_sha256` is not a SHA-256");
                let expected = "expected 64 hexadecimal digits, as `printf %s KEY | sha256sum` \
                                prints them";
                findings.value(&path!["keys", index, "key_sha256"], message, expected);
            }
            "key_sha256"
        }
    };
    let digest = key.digest();
    if let Some(first) = seen.keys.get(&digest) {
        let line = match first {
            Some(first) => format!("on {}", findings.line_of(&path!["keys", *first])),
            None => "in `keys` of the configuration".to_owned(),
        };
        let message = format!("`keys[{index}]` has the key of another, {line}");
        findings.value(&path!["keys", index, at], message, "expected each key once");
    } else {
        seen.keys.insert(digest, Some(index));
    }
}

fn deadline(key: &Key, index: usize, findings: &mut Findings<'_>) {
    if key.deadline.is_some_and(TimeSpan::is_zero) {
        let path = path!["keys", index, "deadline"];
        findings.value(&path, "no answer ends in `0s`", "expected more than `0s`");
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
    let told: Option<Vec<&str>> =
        config.workers.iter().map(|worker| worker.model.as_deref()).collect();
    let Some(mut served) = told.filter(|served| !served.is_empty()) else { return };
    if !config.discovery.is_empty() {
        return;
    }
    served.extend(config.models.values().flat_map(|own| own.aliases.iter().map(String::as_str)));
    served.extend(config.cascades.keys().map(String::as_str));
    for (place, model) in models.iter().enumerate() {
        if is_name(model) && !served.contains(&model.as_str()) {
            let meant = did_you_mean(model, &served);
            let message = format!("no worker serves the model `{model}`{meant}");
            let path = path!["keys", index, "models", place];
            findings.value(&path, message, "expected a model or an alias");
        }
    }
}
