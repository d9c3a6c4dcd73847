//! Header validation: names of headers, and none that never passes.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Patterns of one direction at most; each header of a request is compared with them.
const PATTERNS_MAX: usize = 64;

/// Headers that belong to one connection, or tell where its messages end.
const OF_CONNECTIONS: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of clients that are credentials, or that the gateway writes itself.
const OF_CLIENTS: [&str; 17] = [
    "accept",
    "accept-encoding",
    "api-key",
    "authorization",
    "content-encoding",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "traceparent",
    "tracestate",
    "user-agent",
    "via",
    "x-api-key",
    "x-data-parallel-rank",
    "x-request-id",
];

/// Headers of workers that the listener writes itself, or that only `cors` may.
const OF_WORKERS: [&str; 8] = [
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "date",
    "server",
    "set-cookie",
    "via",
    "x-request-id",
];

const OURS: &str = "x-overdraft-";

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let headers = &config.headers;
    patterns("to_workers", &headers.to_workers, &OF_CLIENTS, findings);
    patterns("to_clients", &headers.to_clients, &OF_WORKERS, findings);
}

fn patterns(key: &'static str, names: &[String], never: &[&str], findings: &mut Findings<'_>) {
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
        } else if OF_CONNECTIONS.contains(&&*lower)
            || never.contains(&&*lower)
            || stem.starts_with(OURS)
        {
            let message = format!("`{name}` never passes by `headers.{key}`");
            let expected =
                "expected none of a connection, no credential, none that the gateway writes";
            findings.value(&path, message, expected);
        }
    }
}
