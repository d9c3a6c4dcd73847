//! Header validation: names of headers, and none that never passes.

use overdraft_core::header_rules::{HeaderDirection, OURS};

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Patterns of one direction at most; each header of a request is compared with them.
const PATTERNS_MAX: usize = 64;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let headers = &config.headers;
    patterns("to_workers", &headers.to_workers, HeaderDirection::ToWorkers, findings);
    patterns("to_clients", &headers.to_clients, HeaderDirection::ToClients, findings);
}

fn patterns(
    key: &'static str,
    names: &[String],
    direction: HeaderDirection,
    findings: &mut Findings<'_>,
) {
    if PATTERNS_MAX < names.len() {
        let message = format!("{} headers are named", names.len());
        findings.key(&path!["headers", key], message, format!("expected at most {PATTERNS_MAX}"));
    }
    for (index, name) in names.iter().enumerate() {
        let path = path!["headers", key, index];
        let lower = name.to_ascii_lowercase();
        let stem = lower.strip_suffix('*').unwrap_or(&lower);
        // RFC 9110 allows a `*` within a name; here it would be a mistake.
        let is_name = !stem.contains('*') && http::HeaderName::try_from(stem).is_ok();
        if name != "*" && !is_name {
            let message = format!("`{name}` is not the name of a header");
            findings.value(&path, message, "expected one as in `x-team`, or `x-team-*`");
        } else if direction.never_passes(&lower) || stem.starts_with(OURS) {
            let message = format!("`{name}` never passes by `headers.{key}`");
            let expected =
                "expected none of a connection, no credential, none that the gateway writes";
            findings.value(&path, message, expected);
        }
    }
}
