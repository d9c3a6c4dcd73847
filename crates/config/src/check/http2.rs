//! HTTP/2 validation: rejects bounds that refuse everything or none.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Requests under way on one connection that may be allowed at most; each may hold a body and an answer.
const STREAMS_MAX: u32 = 10_000;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let streams = config.http2.max_concurrent_streams;
    if streams == 0 || STREAMS_MAX < streams {
        let message = format!("`http2.max_concurrent_streams` is `{streams}`");
        let expected = format!("expected 1 to {STREAMS_MAX}; to switch it off, `enabled: false`");
        findings.value(&path!["http2", "max_concurrent_streams"], message, expected);
    }
}
