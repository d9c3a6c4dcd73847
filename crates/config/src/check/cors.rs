//! CORS validation: origins as browsers send them.

use std::time::Duration;

use super::findings::Findings;
use crate::node::Step;
use crate::tree::Config;

/// Origins that may be named at most; each request of a page is compared with them.
const ORIGINS_MAX: usize = 64;

/// Browsers remember for no longer.
const MAX_AGE_MAX: Duration = Duration::from_hours(24);

const EXPECTED: &str =
    "expected one as in `https://app.example.com` or `http://localhost:3000`, or `*`";

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let cors = &config.cors;
    if ORIGINS_MAX < cors.origins.len() {
        let message = format!("{} origins are allowed", cors.origins.len());
        let expected = format!("expected at most {ORIGINS_MAX}, or `*` alone");
        findings.key(&path!["cors", "origins"], message, expected);
    }
    for (index, origin) in cors.origins.iter().enumerate() {
        let path = path!["cors", "origins", index];
        // What stands before an `@` may be a password.
        if origin.contains('@') {
            let message = format!("`{}` names a user", crate::node::shown(&path));
            findings.value(&path, message, EXPECTED);
        } else if let Some(why) = fault(origin) {
            let message = format!("`{origin}` is not the origin of a page: {why}");
            findings.value(&path, message, EXPECTED);
        }
    }
    if MAX_AGE_MAX < cors.max_age.duration() {
        let message = format!("browsers do not remember for `{}`", cors.max_age);
        findings.value(&path!["cors", "max_age"], message, "expected at most `24h`");
    }
}

/// Why no browser would send this origin.
fn fault(origin: &str) -> Option<&'static str> {
    if origin == "*" {
        return None;
    }
    let Some((scheme, place)) = origin.split_once("://") else {
        return Some("it has no scheme");
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme {
        return Some("its scheme is none");
    }
    if place.contains('*') {
        return Some("a `*` stands for every page or for none");
    }
    if place.contains(['/', '?', '#']) {
        return Some("it ends with its host or port");
    }
    let authority = place.parse::<http::uri::Authority>().ok();
    let Some(authority) = authority.filter(|authority| !authority.host().is_empty()) else {
        return Some("its host is none");
    };
    match (scheme, authority.port_u16()) {
        ("http", Some(80)) | ("https", Some(443)) => Some("browsers leave that port out"),
        (_, None) if authority.host().len() < place.len() => Some("its port is none"),
        _ => None,
    }
}
