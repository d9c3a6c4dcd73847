//! Header rules: which headers never pass between clients and workers, whatever is configured (RFC 9110, section 7.6.1).
//!
//! Invariant: no header passes that belongs to one connection, that is a credential, that the gateway writes itself, or
//! whose name begins with [`OURS`].

/// What the gateway's own headers begin with.
pub const OURS: &str = "x-overdraft-";

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

/// Who sent the headers, and who would get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderDirection {
    /// Those of a client, to its worker.
    ToWorkers,
    /// Those of a worker, to its client.
    ToClients,
}

impl HeaderDirection {
    /// Whether a header of this name, in lower case, never passes this way.
    ///
    /// ```
    /// use overdraft_core::header_rules::HeaderDirection::{ToClients, ToWorkers};
    /// assert!(ToWorkers.never_passes("authorization"));
    /// assert!(ToClients.never_passes("x-overdraft-worker"));
    /// assert!(!ToWorkers.never_passes("x-team"));
    /// ```
    pub fn never_passes(self, name: &str) -> bool {
        OF_CONNECTIONS.contains(&name) || self.own().contains(&name) || name.starts_with(OURS)
    }

    /// The names that never pass this way, beside all that begin with [`OURS`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        OF_CONNECTIONS.into_iter().chain(self.own().iter().copied())
    }

    const fn own(self) -> &'static [&'static str] {
        match self {
            Self::ToWorkers => &OF_CLIENTS,
            Self::ToClients => &OF_WORKERS,
        }
    }
}
