//! Tracing validation: the collector's address and headers.

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Attributes and headers at most, each.
const ENTRIES_MAX: usize = 32;

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let tracing = &config.tracing;
    if let Some(endpoint) = &tracing.endpoint
        && let Err(why) = collector(endpoint)
    {
        let message = format!("`tracing.endpoint` {why}");
        let expected = "expected one as in `http://127.0.0.1:4318`, without a user name";
        findings.value(&path!["tracing", "endpoint"], message, expected);
    }
    for (name, value) in &tracing.headers {
        let is_sent = http::HeaderName::try_from(name.as_str()).is_ok()
            && http::HeaderValue::try_from(value.reveal()).is_ok();
        if !is_sent {
            let message = format!("`{name}` is no header that can be sent");
            let expected = "expected a name and a value of visible ASCII";
            findings.value(&path!["tracing", "headers", name.as_str()], message, expected);
        }
    }
    for (key, count) in
        [("headers", tracing.headers.len()), ("attributes", tracing.attributes.len())]
    {
        if ENTRIES_MAX < count {
            let message = format!("`tracing.{key}` has {count} entries");
            findings.value(
                &path!["tracing", key],
                message,
                format!("expected at most {ENTRIES_MAX}"),
            );
        }
    }
    if tracing.timeout.is_zero() {
        let message = "`tracing.timeout` is no time at all";
        findings.value(&path!["tracing", "timeout"], message, "expected more than `0s`");
    }
}

/// Whether a text is the address of a collector.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn collector(text: &str) -> Result<(), &'static str> {
    let uri: http::Uri = text.parse().map_err(|_| "is not a URL")?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("has no scheme `http` or `https`");
    }
    let authority = uri.authority().ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("has a user name");
    }
    if authority.host().is_empty() || overdraft_units::port_of(authority.as_str(), 1).is_err() {
        return Err("has no host, or a port that is not a number from 1 to 65535");
    }
    Ok(())
}
