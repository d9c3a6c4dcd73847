//! Store settings: address, namespace, timeouts and exchange intervals.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::address::Place;

/// How gateways share what they know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Its address.
    pub place: Place,
    /// Gateways of one namespace share; others do not see it.
    pub namespace: Namespace,
    /// How long a command may take.
    pub timeout: Duration,
    /// How long a connection may take to be made, handshakes and password included.
    pub connect_timeout: Duration,
    /// Certificates, for `rediss` addresses.
    pub tls: TlsFiles,
    /// Interval between reads of the board.
    pub board_interval: Duration,
    /// Interval between exchanges of shares and budgets.
    pub share_interval: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            place: Place::Memory,
            namespace: Namespace::default(),
            timeout: Duration::from_millis(75),
            connect_timeout: Duration::from_secs(1),
            tls: TlsFiles::default(),
            board_interval: Duration::from_millis(30),
            share_interval: Duration::from_millis(150),
        }
    }
}

/// PEM files for `rediss` addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Who signs the server's certificate; the machine's own authorities unless set.
    pub ca: Option<PathBuf>,
    /// This gateway's certificate, for servers that want one.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Longest namespace, in bytes.
const NAMESPACE_MAX: usize = 64;

/// The name that gateways which share have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// Parses a namespace: letters, digits, `-`, `_` and `.`, at most 64 of them.
    ///
    /// # Errors
    /// [`NamespaceError`] with the value, where it is none.
    pub fn parse(name: &str) -> Result<Self, NamespaceError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || NAMESPACE_MAX < name.len() || !name.bytes().all(fits) {
            return Err(NamespaceError { name: name.to_owned() });
        }
        Ok(Self(name.to_owned()))
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Not a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a namespace; expected 1 to 64 letters, digits, `-`, `_` or `.`")]
pub struct NamespaceError {
    /// As configured.
    pub name: String,
}
