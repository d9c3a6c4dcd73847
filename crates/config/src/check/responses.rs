//! Kept response validation: rejects settings that could keep nothing.

use std::time::Duration;

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Maximum TTL of a response.
const TTL_MAX: Duration = Duration::from_hours(30 * 24);

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let responses = &config.responses;
    if responses.ttl.is_zero() || TTL_MAX < responses.ttl.duration() {
        let message = format!("a response cannot be kept for `{}`", responses.ttl);
        let expected = "expected more than `0s` and at most 30 days";
        findings.value(&path!["responses", "ttl"], message, expected);
    }
    if responses.memory.bytes() < responses.entry_max.bytes() {
        let message = format!(
            "one response of `{}` would not fit into a memory of `{}`",
            responses.entry_max, responses.memory
        );
        let expected = "expected `responses.memory` to hold at least one of `entry_max`";
        findings.value(&path!["responses", "memory"], message, expected);
    }
}
