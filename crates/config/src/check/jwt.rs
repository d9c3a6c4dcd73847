//! JSON Web Token validation: rejects tokens that would be anybody's, and keys that anybody could change.

use overdraft_units::port_of;

use super::findings::Findings;
use crate::node::Step;
use crate::quantity::TimeSpan;
use crate::tree::{Config, Jwt};

/// From one look at an issuer's keys to the next at least.
const REFRESH_MIN: TimeSpan = TimeSpan::from_secs(10);

/// How far clocks may differ at most: beyond that, tokens have no end to speak of.
const LEEWAY_MAX: TimeSpan = TimeSpan::from_secs(10 * 60);

pub(super) fn check(config: &Config, findings: &mut Findings<'_>) {
    let Some(jwt) = &config.jwt else { return };
    for (key, text) in
        [("issuer", &jwt.issuer), ("audience", &jwt.audience), ("tenant_claim", &jwt.tenant_claim)]
    {
        if text.trim().is_empty() {
            let message = format!("`jwt.{key}` is empty");
            findings.value(&path!["jwt", key], message, "expected what the tokens have there");
        }
    }
    if jwt.algorithms.is_empty() {
        let message = "`jwt.algorithms` is empty, which refuses every token";
        findings.value(&path!["jwt", "algorithms"], message, "expected one, as in `[RS256]`");
    }
    if LEEWAY_MAX < jwt.leeway {
        let message = format!("tokens would be good for `{}` after their end", jwt.leeway);
        let expected = format!("expected at most `{LEEWAY_MAX}`");
        findings.value(&path!["jwt", "leeway"], message, expected);
    }
    place(jwt, findings);
    times(jwt, findings);
    defaults(jwt, findings);
}

fn place(jwt: &Jwt, findings: &mut Findings<'_>) {
    match (&jwt.jwks_url, &jwt.jwks_file) {
        (None, None) => {
            let message = "`jwt` does not say where the issuer's keys are";
            findings.key(&path!["jwt"], message, "expected either `jwks_url` or `jwks_file`");
        }
        (Some(_), Some(_)) => {
            let message = "`jwt` says twice where the issuer's keys are";
            let expected = "expected either `jwks_url` or `jwks_file`";
            findings.value(&path!["jwt", "jwks_file"], message, expected);
        }
        (Some(url), None) => {
            if let Err(why) = address(url) {
                let expected = "expected one as in `https://id.example/jwks.json`, without a user \
                                name; `http` on this machine only";
                let message = format!("`jwt.jwks_url` {why}");
                findings.value(&path!["jwt", "jwks_url"], message, expected);
            } else if jwt.ca_file.is_some() && url.starts_with("http://") {
                let message = "`jwt.ca_file` is set, and `jwks_url` begins with `http://`";
                findings.value(&path!["jwt", "ca_file"], message, "expected `https://…`");
            }
        }
        (None, Some(_)) if jwt.ca_file.is_some() => {
            let message = "`jwt.ca_file` is set without `jwks_url`";
            findings.value(&path!["jwt", "ca_file"], message, "expected the address it is for");
        }
        (None, Some(_)) => {}
    }
}

/// What is wrong with an address of keys.
fn address(url: &str) -> Result<(), &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "is not a URL")?;
    let authority = uri.authority().ok_or("has no host")?;
    if authority.as_str().contains('@') {
        return Err("has a user name");
    }
    if authority.host().is_empty() || port_of(authority.as_str(), 1).is_err() {
        return Err("has no host, or a port that is not a number from 1 to 65535");
    }
    let host = authority.host().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    let is_here = address.map_or(host == "localhost", |address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if is_here => Ok(()),
        Some("http") => Err("is not encrypted: an attacker on the network could sign tokens"),
        _ => Err("has no scheme `https`"),
    }
}

fn times(jwt: &Jwt, findings: &mut Findings<'_>) {
    if jwt.jwks_refresh < REFRESH_MIN {
        let message = format!("the issuer would be asked every `{}`", jwt.jwks_refresh);
        let expected = format!("expected at least `{REFRESH_MIN}`");
        findings.value(&path!["jwt", "jwks_refresh"], message, expected);
    } else if jwt.jwks_max_age <= jwt.jwks_refresh {
        let message = format!("keys would be too old after `{}`", jwt.jwks_max_age);
        let expected = "expected `jwks_max_age` to be more than `jwks_refresh`";
        findings.value(&path!["jwt", "jwks_max_age"], message, expected);
    }
}

fn defaults(jwt: &Jwt, findings: &mut Findings<'_>) {
    let own = &jwt.defaults;
    if own.priority_max < own.priority {
        let (usual, most) = (own.priority.name(), own.priority_max.name());
        let message = format!("requests would be `{usual}`, and may be `{most}` at most");
        let expected = "expected `priority_max` to be at least `priority`";
        findings.value(&path!["jwt", "defaults", "priority_max"], message, expected);
    }
    let budgets = [
        ("requests_per_minute", own.requests_per_minute),
        ("tokens_per_minute", own.tokens_per_minute),
    ];
    for (name, budget) in budgets {
        if budget == Some(0) {
            let message = format!("`jwt.defaults.{name}` is `0`, which refuses everything");
            let expected = "expected at least 1; leave it out for no limit";
            findings.value(&path!["jwt", "defaults", name], message, expected);
        }
    }
    if own.models.as_ref().is_some_and(Vec::is_empty) {
        let message = "`jwt.defaults.models` is empty, which refuses everything";
        let expected = "expected a model; leave it out to allow all";
        findings.value(&path!["jwt", "defaults", "models"], message, expected);
    }
}
