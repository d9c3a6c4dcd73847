//! Web address: the URL of a metrics page, a webhook or an issuer's keys.

use std::fmt;

use http::uri::{Authority, PathAndQuery};
use overdraft_units::port_of;

/// `http://host:port/path`, or the same by `https`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebAddress {
    pub(crate) is_encrypted: bool,
    pub(crate) authority: Authority,
    pub(crate) path: PathAndQuery,
}

/// Why a text is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; expected an address as in `http://10.0.0.5:9400/metrics`, without a user name")]
pub struct WebAddressError {
    why: &'static str,
}

impl WebAddress {
    /// Reads an address of plain HTTP.
    ///
    /// # Errors
    /// Says what is wrong with it, never what it holds: there may be a password in it.
    pub fn parse(url: &str) -> Result<Self, WebAddressError> {
        let place = Self::parse_any(url)?;
        if place.is_encrypted {
            return Err(WebAddressError { why: "its scheme is not `http`" });
        }
        Ok(place)
    }

    /// Reads an address whose answers nobody on the way can change: by `https`, or on this machine.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_trusted(url: &str) -> Result<Self, WebAddressError> {
        let place = Self::parse_any(url)?;
        if !place.is_encrypted && !is_loopback(place.host()) {
            return Err(WebAddressError {
                why: "an attacker on the network could change its answers",
            });
        }
        Ok(place)
    }

    fn parse_any(url: &str) -> Result<Self, WebAddressError> {
        let fault = |why| WebAddressError { why };
        let uri: http::Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(fault("its scheme is neither `http` nor `https`")),
        };
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(fault("it has a user name"));
        }
        port_of(authority.as_str(), default_port(is_encrypted))
            .map_err(|_| fault("its port is not a number from 1 to 65535"))?;
        let path = uri.path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { is_encrypted, authority, path })
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        let default = default_port(self.is_encrypted);
        port_of(self.authority.as_str(), default).unwrap_or(default)
    }
}

const fn default_port(is_encrypted: bool) -> u16 {
    if is_encrypted { 443 } else { 80 }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

/// Without a query, which may be a secret.
impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path.path())
    }
}

impl fmt::Debug for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
