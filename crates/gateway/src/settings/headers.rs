//! Settings of header filtering: which headers pass between clients and workers, beside those that always do.
//!
//! Invariant: no pattern lets a header through that never passes (`overdraft_core::header_rules`).

use http::HeaderName;
use overdraft_core::header_rules::HeaderDirection;

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
        self.to_workers.iter().any(|pattern| pattern.matches(name))
            && !HeaderDirection::ToWorkers.never_passes(name.as_str())
    }

    /// Whether a client is sent a worker's header.
    pub fn go_to_clients(&self, name: &HeaderName) -> bool {
        let named = |patterns: &Vec<HeaderPattern>| {
            patterns.iter().any(|pattern| pattern.matches(name))
                && !HeaderDirection::ToClients.never_passes(name.as_str())
        };
        self.to_clients.as_ref().is_none_or(named)
    }
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
        let (to_workers, to_clients) = (HeaderDirection::ToWorkers, HeaderDirection::ToClients);
        let all: Vec<&str> = to_workers.names().chain(to_clients.names()).collect();
        let names = [&all[..], &["*", "x-*", "x-overdraft-*", "x-overdraft-worker"]].concat();
        let settings = settings(&names, &names);
        let name = |name: &str| HeaderName::try_from(name).unwrap();
        for never in to_workers.names().chain(["x-overdraft-admin"]) {
            assert!(!settings.go_to_workers(&name(never)), "{never}");
        }
        for never in to_clients.names().chain(["x-overdraft-worker"]) {
            assert!(!settings.go_to_clients(&name(never)), "{never}");
        }
        assert!(settings.go_to_workers(&name("x-team")) && settings.go_to_clients(&name("etag")));
        assert!(HeaderSettings::default().go_to_clients(&name("etag")));
        assert!(!HeaderSettings::default().go_to_workers(&name("x-team")));
    }
}
