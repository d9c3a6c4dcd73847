//! Web address: the `http` URL of a metrics page or a webhook.

use std::fmt;

use http::uri::{Authority, PathAndQuery, Scheme};
use overdraft_units::port_of;

/// `http://host:port/path`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebPlace {
    pub(crate) authority: Authority,
    pub(crate) path: PathAndQuery,
}

/// Why a text is no such place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; expected an address as in `http://10.0.0.5:9400/metrics`, without a user name")]
pub struct PlaceError {
    why: &'static str,
}

impl WebPlace {
    /// Reads an address.
    ///
    /// # Errors
    /// Says what is wrong with it, never what it holds: there may be a password in it.
    pub fn parse(url: &str) -> Result<Self, PlaceError> {
        let fault = |why| PlaceError { why };
        let uri: http::Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(fault("its scheme is not `http`"));
        }
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(fault("it has a user name"));
        }
        port_of(authority.as_str(), 80)
            .map_err(|_| fault("its port is not a number from 1 to 65535"))?;
        let path = uri.path_and_query().cloned();
        Ok(Self { authority, path: path.unwrap_or(PathAndQuery::from_static("/")) })
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        port_of(self.authority.as_str(), 80).unwrap_or(80)
    }
}

/// Without a query, which may be a secret.
impl fmt::Display for WebPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path.path())
    }
}

impl fmt::Debug for WebPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
