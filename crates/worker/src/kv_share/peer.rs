//! Peer address: host and port of another worker.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// Default port of an address.
const PORT: u16 = 80;

/// Another worker's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Not the address of a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a peer; expected `http://host:port`, without a path")]
pub struct PeerError {
    text: String,
}

impl Peer {
    /// As it stands in a request's head.
    pub(super) fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let refused = || PeerError { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| refused())?;
        let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(refused)?;
        if !plain || authority.contains('@') || uri.query().is_some() {
            return Err(refused());
        }
        // A port that is no port is no reason to take another one.
        let port = match authority.strip_prefix(host) {
            Some("") => PORT,
            Some(rest) => {
                let digits = rest.strip_prefix(':').ok_or_else(refused)?;
                digits.parse().map_err(|_| refused())?
            }
            None => return Err(refused()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let peer = text.parse::<Peer>().map(|peer| peer.to_string());
        assert_eq!(peer.ok().as_deref(), expected, "{text}");
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        check("http://10.0.0.2:8000", Some("http://10.0.0.2:8000"));
        check("http://worker-2/", Some("http://worker-2:80"));
        check("http://[::1]:8000", Some("http://[::1]:8000"));
        for text in [
            "",
            "worker:8000",
            "https://worker:8000",
            "http://worker:8000/kv",
            "http://user@worker:8000",
            "http://worker:99999",
            "http://:8000",
        ] {
            check(text, None);
        }
    }
}
