//! Target address of the load.

use std::sync::Arc;

use http::Uri;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use overdraft_tls::{ClientSettings, ClientTls, TlsError, Trust};
use overdraft_units::port_of;

/// An endpoint and what every request to it says.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands before `/chat/completions`, such as `/v1`.
    pub(crate) base: String,
    pub(crate) headers: HeaderMap,
    /// How it is spoken to where that is encrypted.
    pub(crate) tls: Option<Arc<ClientTls>>,
}

/// Why a text names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not a URL that can be used.
    #[error("`{url}` {wrong}; expected `http://host:port`, or `https://host/v1`")]
    Url {
        /// What was typed.
        url: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// Nobody vouches for it.
    #[error(transparent)]
    Trust(#[from] TlsError),
    /// Not a header.
    #[error("`{0}` is not a header; expected `name: value`")]
    Header(String),
    /// A key that no header can carry.
    #[error("the API key has characters that no header can carry; expected visible ASCII")]
    Key,
}

impl Target {
    /// Reads `http://host:port`, with `/v1` behind it unless another path is given. `https` is spoken to whom
    /// `trust` vouches for.
    ///
    /// # Errors
    /// When it is no URL, one of another scheme, or nobody can be trusted.
    pub fn parse(url: &str, trust: &Trust) -> Result<Self, TargetError> {
        let fault = |wrong| TargetError::Url { url: url.to_owned(), wrong };
        let uri: Uri = url.parse().map_err(|_| fault("is no URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(fault("has no scheme `http` or `https`")),
        };
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| fault("has no host"))?;
        if uri.query().is_some() || uri.authority().is_some_and(|all| all.as_str().contains('@')) {
            return Err(fault("has a query or a user name"));
        }
        let path = uri.path().trim_end_matches('/');
        let known = ["/chat/completions", "/completions"];
        let base = known.iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let base = if base.is_empty() { "/v1" } else { base };
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        let port = port_of(authority, if is_encrypted { 443 } else { 80 })
            .map_err(|_| fault("has a port that is not a number from 1 to 65535"))?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_| fault("has no host"))?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = concat!("overdraft-bench/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            base: base.to_owned(),
            headers,
            tls: is_encrypted.then(|| believing(trust)).transpose()?,
        })
    }

    /// Adds a header to every request, given as `name: value`.
    ///
    /// # Errors
    /// When it is not that.
    pub fn header(&mut self, text: &str) -> Result<(), TargetError> {
        let wrong = || TargetError::Header(text.to_owned());
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| wrong())?;
        let value = HeaderValue::try_from(value.trim()).map_err(|_| wrong())?;
        self.headers.insert(name, value);
        Ok(())
    }

    /// Sends an API key with every request.
    ///
    /// # Errors
    /// When a header cannot carry it.
    pub fn key(&mut self, key: &str) -> Result<(), TargetError> {
        let mut value =
            HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| TargetError::Key)?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    /// The path of a resource.
    pub(crate) fn path(&self, resource: &str) -> String {
        format!("{}{resource}", self.base)
    }
}

/// TLS to whom `trust` vouches for.
fn believing(trust: &Trust) -> Result<Arc<ClientTls>, TlsError> {
    let settings = ClientSettings { trust: trust.clone(), ..ClientSettings::default() };
    ClientTls::new(settings).map(Arc::new)
}
