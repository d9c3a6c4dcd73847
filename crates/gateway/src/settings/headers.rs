//! Settings of header filtering: which headers pass between clients and workers, beside those that always do.
//!
//! Invariant: no pattern lets a header through that belongs to one connection, that is a credential, that the gateway
//! writes itself, or whose name begins with `x-overdraft-`.

use http::HeaderName;

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

/// What the gateway's own headers begin with.
const OURS: &str = "x-overdraft-";

/// What a pattern ends with that stands for every name that begins so.
const ANY: char = '*';

/// A header's name, or what names begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderPattern {
    /// One header.
    Name(HeaderName),
    /// All that begin so, in lower case; the empty text stands for all.
    Prefix(String),
}

impl HeaderPattern {
    /// Reads `x-tenant`, `x-tenant-*` or `*`; nothing where that is no name.
    pub fn parse(text: &str) -> Option<Self> {
        // RFC 9110 allows it within a name; here it would be a mistake.
        let read = |name: &str| HeaderName::try_from(name).ok().filter(|_| !name.contains(ANY));
        match text.strip_suffix(ANY) {
            Some("") => Some(Self::Prefix(String::new())),
            Some(start) => read(start).map(|name| Self::Prefix(name.as_str().to_owned())),
            None => read(text).map(Self::Name),
        }
    }

    fn matches(&self, name: &HeaderName) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Prefix(start) => name.as_str().starts_with(start.as_str()),
        }
    }
}

/// Which headers pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderSettings {
    /// Headers of clients that workers are sent besides.
    pub to_workers: Vec<HeaderPattern>,
    /// Headers of workers that clients are sent; all where nothing is said.
    pub to_clients: Option<Vec<HeaderPattern>>,
}

impl HeaderSettings {
    /// Whether a worker is sent a client's header.
    pub fn go_to_workers(&self, name: &HeaderName) -> bool {
        self.to_workers.iter().any(|pattern| pattern.matches(name)) && may_go_to_workers(name)
    }

    /// Whether a client is sent a worker's header.
    pub fn go_to_clients(&self, name: &HeaderName) -> bool {
        let named = |patterns: &Vec<HeaderPattern>| {
            patterns.iter().any(|pattern| pattern.matches(name)) && may_go_to_clients(name)
        };
        self.to_clients.as_ref().is_none_or(named)
    }
}

fn may_go_to_workers(name: &HeaderName) -> bool {
    let name = name.as_str();
    !(OF_CONNECTIONS.contains(&name) || OF_CLIENTS.contains(&name) || name.starts_with(OURS))
}

fn may_go_to_clients(name: &HeaderName) -> bool {
    let name = name.as_str();
    !(OF_CONNECTIONS.contains(&name) || OF_WORKERS.contains(&name) || name.starts_with(OURS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(to_workers: &[&str], to_clients: &[&str]) -> HeaderSettings {
        let read = |patterns: &[&str]| {
            patterns.iter().map(|pattern| HeaderPattern::parse(pattern).unwrap()).collect()
        };
        HeaderSettings { to_workers: read(to_workers), to_clients: Some(read(to_clients)) }
    }

    #[test]
    fn names_and_beginnings_are_read() {
        let name = HeaderPattern::Name(HeaderName::from_static("x-tenant"));
        assert_eq!(HeaderPattern::parse("X-Tenant"), Some(name));
        assert_eq!(HeaderPattern::parse("X-T-*"), Some(HeaderPattern::Prefix("x-t-".to_owned())));
        for bad in ["", "x tenant", "x:tenant", "x-*-y", "**", "é*"] {
            assert_eq!(HeaderPattern::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_pattern_lets_through_what_never_passes() {
        let all: Vec<&str> =
            OF_CONNECTIONS.into_iter().chain(OF_CLIENTS).chain(OF_WORKERS).collect();
        let names = [&all[..], &["*", "x-*", "x-overdraft-*", "x-overdraft-worker"]].concat();
        let settings = settings(&names, &names);
        let name = |name: &str| HeaderName::try_from(name).unwrap();
        for never in OF_CONNECTIONS.into_iter().chain(OF_CLIENTS).chain(["x-overdraft-admin"]) {
            assert!(!settings.go_to_workers(&name(never)), "{never}");
        }
        for never in OF_CONNECTIONS.into_iter().chain(OF_WORKERS).chain(["x-overdraft-worker"]) {
            assert!(!settings.go_to_clients(&name(never)), "{never}");
        }
        assert!(settings.go_to_workers(&name("x-team")) && settings.go_to_clients(&name("etag")));
        assert!(HeaderSettings::default().go_to_clients(&name("etag")));
        assert!(!HeaderSettings::default().go_to_workers(&name("x-team")));
    }
}
