//! Collector address: the `http` or `https` URL that batches are posted to.

use std::fmt;

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use overdraft_units::port_of;

/// The port of OTLP over HTTP, where the URL has none.
const PORT: u16 = 4_318;

/// The path of spans, where the URL has none.
const TRACES: &str = "/v1/traces";

/// Where batches are posted to.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) is_encrypted: bool,
    pub(crate) authority: Authority,
    pub(crate) port: u16,
    pub(crate) path: PathAndQuery,
}

/// Why a text is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; expected an address as in `http://127.0.0.1:4318`, without a user name")]
pub struct EndpointError {
    why: &'static str,
}

impl Endpoint {
    /// Reads an address. Without a path, `/v1/traces` is meant; without a port, 4318, or 443 for `https`.
    ///
    /// # Errors
    /// Says what is wrong with it, never what it holds: there may be a password in it.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let fault = |why| EndpointError { why };
        let uri: Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(fault("its scheme is neither `http` nor `https`")),
        };
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(fault("it has a user name"));
        }
        let default = if is_encrypted { 443 } else { PORT };
        let port = port_of(authority.as_str(), default)
            .map_err(|_| fault("its port is not a number from 1 to 65535"))?;
        let path = match uri.path_and_query() {
            Some(path) if path.as_str() != "/" => path.clone(),
            _ => PathAndQuery::from_static(TRACES),
        };
        Ok(Self { is_encrypted, authority, port, path })
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_matches(['[', ']'])
    }
}

/// Without a query, which may be a secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
