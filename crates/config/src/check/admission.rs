//! Admission validation: rejects admission settings that contradict each other.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::{Config, Priority};

const PRIORITIES: [Priority; 3] = [Priority::Flex, Priority::Default, Priority::Priority];

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let admission = &config.admission;
    for priority in PRIORITIES {
        let name = priority.name();
        if admission.kv_threshold.of(priority).permille() == 0 {
            let message =
                format!("`admission.kv_threshold.{name}` is `0%`, which refuses everything");
            let path = path!["admission", "kv_threshold", name];
            findings.value(&path, message, "expected more than `0%`");
        }
        if admission.first_token.of(priority).is_zero() {
            let message = format!("`admission.first_token.{name}` is no time at all");
            let path = path!["admission", "first_token", name];
            findings.value(&path, message, "expected more than `0s`");
        }
    }
    for [lower, higher] in
        [[Priority::Flex, Priority::Default], [Priority::Default, Priority::Priority]]
    {
        let (low, high) = (admission.kv_threshold.of(lower), admission.kv_threshold.of(higher));
        if high < low {
            let (lower, higher) = (lower.name(), higher.name());
            let message =
                format!("`{higher}` would be refused at `{high}`, before `{lower}` at `{low}`");
            let path = path!["admission", "kv_threshold", higher];
            let expected = format!("expected at least the threshold of `{lower}`");
            findings.value(&path, message, expected);
        }
    }
    for (name, share) in
        [("watermark", admission.watermark), ("fair_reserve", admission.fair_reserve)]
    {
        if 500 < share.permille() {
            let message = format!("`{share}` of the cache would lie idle");
            findings.value(&path!["admission", name], message, "expected at most `50%`");
        }
    }
    if admission.prefill_backlog.is_zero() {
        let message = "`admission.prefill_backlog` is no time at all";
        let expected = "expected more than `0s`, as in `1s`";
        findings.value(&path!["admission", "prefill_backlog"], message, expected);
    }
    if admission.requests_max == Some(0) {
        let message = "`admission.requests_max` is `0`, which refuses everything";
        let expected = "expected at least 1; leave it out for no limit";
        findings.value(&path!["admission", "requests_max"], message, expected);
    }
    if admission.queue.requests < admission.queue.per_tenant {
        let message = format!(
            "`{}` requests of one tenant cannot fit into `{}`",
            admission.queue.per_tenant, admission.queue.requests
        );
        let expected = "expected `per_tenant` to be at most `requests`";
        findings.value(&path!["admission", "queue", "per_tenant"], message, expected);
    }
}
