//! Client side of TLS: whom a client trusts, and the certificate that it shows.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::anyone::Anyone;
use crate::error::TlsError;
use crate::pem;
use crate::renewed::Renewed;

/// The protocol that both sides offer (ALPN).
pub(crate) const HTTP: &[u8] = b"http/1.1";

/// What a listener may offer besides (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// Who vouches for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// The authorities that this system trusts.
    #[default]
    System,
    /// Those of a file of PEM certificates, and no others.
    Authorities(PathBuf),
    /// Nobody has to.
    Anyone,
}

/// The certificate that a client shows, and its key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What is set about a client's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSettings {
    /// Who vouches for the server.
    pub trust: Trust,
    /// What is shown to a server that asks.
    pub identity: Option<Identity>,
    /// The name that the server's certificate must have, where it is not the host that is connected to.
    pub server_name: Option<String>,
}

impl ClientSettings {
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let authorities = match &self.trust {
            Trust::Authorities(file) => Some(file),
            Trust::System | Trust::Anyone => None,
        };
        let identity = self.identity.iter().flat_map(|it| [&it.certificate, &it.key]);
        authorities.into_iter().chain(identity)
    }

    fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Library(error.to_string()))?;
        let builder = match &self.trust {
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            }
            Trust::System => builder.with_root_certificates(system()?),
            Trust::Authorities(file) => builder.with_root_certificates(pem::authorities(file)?),
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder
                .with_client_auth_cert(pem::certificates(certificate)?, pem::key(key)?)
                .map_err(|error| TlsError::Mismatch {
                    certificate: certificate.display().to_string(),
                    key: key.display().to_string(),
                    why: error.to_string(),
                })?,
        };
        config.alpn_protocols = vec![HTTP.to_vec()];
        Ok(config)
    }
}

fn system() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // Systems have single certificates that no library reads; the others will do.
    let found = rustls_native_certs::load_native_certs();
    let _added = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) }
}

/// What a client needs to speak TLS to whom it trusts.
///
/// ```
/// use overdraft_tls::{ClientSettings, ClientTls, Trust};
///
/// let tls = ClientTls::new(ClientSettings { trust: Trust::Anyone, ..ClientSettings::default() })?;
/// assert!(tls.server_name("worker-1.example").is_ok());
/// assert!(tls.server_name("no name").is_err());
/// # Ok::<(), overdraft_tls::TlsError>(())
/// ```
#[derive(Debug)]
pub struct ClientTls {
    settings: ClientSettings,
    current: Renewed<ClientConfig>,
}

impl ClientTls {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// Where a file, or what is in it, cannot be used.
    pub fn new(settings: ClientSettings) -> Result<Self, TlsError> {
        let current = Renewed::new(settings.files().cloned().collect(), || settings.config())?;
        if let Some(name) = &settings.server_name {
            server_name(name)?;
        }
        Ok(Self { settings, current })
    }

    /// Agrees on keys with the server at the other end of `stream`, which was connected to by the name `host`.
    ///
    /// # Errors
    /// Where the two cannot agree, or nobody who is trusted vouches for the server.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = self.server_name(host).map_err(io::Error::other)?;
        TlsConnector::from(self.current.get()).connect(name, stream).await
    }

    /// The name by which the server at `host` must be vouched for.
    ///
    /// # Errors
    /// Where the host is neither a name nor an address.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        server_name(self.settings.server_name.as_deref().unwrap_or(host))
    }

    /// Reads the files again if one of them has changed; whether any had.
    ///
    /// # Errors
    /// Where they cannot be used now; what was in force stays so, and the same files are not tried again.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        self.current.refresh(|| self.settings.config())
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| TlsError::ServerName { name: name.to_owned() })
}
