//! Dashboard validation: bounds on what is kept for it.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Requests that may be kept at most.
const REQUESTS_MAX: u32 = 65_536;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let requests = config.dashboard.requests;
    if REQUESTS_MAX < requests {
        let message = format!("`{requests}` requests would take too much memory");
        let expected = format!("expected at most {REQUESTS_MAX}");
        findings.value(&path!["dashboard", "requests"], message, expected);
    }
}
