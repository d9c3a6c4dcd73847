//! Server side of TLS: the certificate that a listener shows, and whose clients it takes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::{HTTP, HTTP2};
use crate::error::TlsError;
use crate::pem;
use crate::renewed::Renewed;

/// What is set about a listener's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The certificate in PEM, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
    /// The authorities whose clients are taken; without any, clients show no certificate.
    pub client_authorities: Option<PathBuf>,
}

/// What a listener offers to speak once a connection is encrypted (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offers {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, and HTTP/1.1 to who does not know that.
    Http2,
}

impl Offers {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![HTTP.to_vec()],
            Self::Http2 => vec![HTTP2.to_vec(), HTTP.to_vec()],
        }
    }
}

impl ServerSettings {
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_authorities)
    }

    fn config(&self, offers: Offers) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let library = |error: rustls::Error| TlsError::Library(error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(library)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let roots = Arc::new(pem::authorities(file)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| TlsError::Library(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let (certificate, key) = (pem::certificates(&self.certificate)?, pem::key(&self.key)?);
        let mut config =
            builder.with_single_cert(certificate, key).map_err(|error| TlsError::Mismatch {
                certificate: self.certificate.display().to_string(),
                key: self.key.display().to_string(),
                why: error.to_string(),
            })?;
        config.alpn_protocols = offers.names();
        Ok(config)
    }
}

/// What a listener needs to speak TLS.
#[derive(Debug)]
pub struct ServerTls {
    settings: ServerSettings,
    offers: Offers,
    current: Renewed<ServerConfig>,
}

impl ServerTls {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// Where a file, or what is in it, cannot be used.
    pub fn new(settings: ServerSettings, offers: Offers) -> Result<Self, TlsError> {
        let files = settings.files().cloned().collect();
        let current = Renewed::new(files, || settings.config(offers))?;
        Ok(Self { settings, offers, current })
    }

    /// Agrees on keys with the client at the other end of `stream`.
    ///
    /// # Errors
    /// Where the two cannot agree, or the client has to show a certificate and does not.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.current.get()).accept(stream).await
    }

    /// Reads the files again if one of them has changed; whether any had.
    ///
    /// # Errors
    /// Where they cannot be used now; what was in force stays so, and the same files are not tried again.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        self.current.refresh(|| self.settings.config(self.offers))
    }
}
