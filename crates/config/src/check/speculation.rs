//! Speculation validation: rejects speculative decoding settings that cannot work.

use overdraft_scheduler::speculate::{DEPTH_MAX, Policy};

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let speculation = &config.speculation;
    if let Some(Err(error)) = speculation.policy.as_ref().map(|text| text.parse::<Policy>()) {
        let text = error.to_string();
        let (why, expected) = text.split_once("; ").unwrap_or((&text, ""));
        findings.value(&path!["speculation", "policy"], why, expected);
    }
    if let Some(depth) = speculation.max_depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
        let message = format!("`{depth}` is not a valid depth");
        findings.value(
            &path!["speculation", "max_depth"],
            message,
            format!("expected 1 to {DEPTH_MAX}"),
        );
    }
}
