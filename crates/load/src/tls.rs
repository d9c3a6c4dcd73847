//! TLS of the load generator: which certificates it trusts for `https`.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The ALPN protocol.
const HTTP: &[u8] = b"http/1.1";

/// Who vouches for an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that this system trusts.
    #[default]
    System,
    /// Those of a file of PEM certificates, and no others.
    Authorities(PathBuf),
    /// Nobody has to.
    Anyone,
}

/// Why nobody can be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// A file that cannot be read or has no certificate.
    #[error("`{file}` {wrong}; expected certificates in PEM, as `-----BEGIN CERTIFICATE-----`")]
    File {
        /// Which.
        file: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// The system trusts nobody.
    #[error("this system has no trusted authorities; expected some, or `--cacert FILE`")]
    NoAuthorities,
    /// The library cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

/// What a client needs to speak TLS to whom it trusts.
pub(crate) fn config(trust: &Trust) -> Result<Arc<ClientConfig>, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Library(error.to_string()))?;
    let mut config = match trust {
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth(),
        Trust::System => builder.with_root_certificates(system()?).with_no_client_auth(),
        Trust::Authorities(file) => {
            builder.with_root_certificates(authorities(file)?).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![HTTP.to_vec()];
    Ok(Arc::new(config))
}

fn system() -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    // Systems have single certificates that no library reads; the others will do.
    let found = rustls_native_certs::load_native_certs();
    let _added = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() { Err(TrustError::NoAuthorities) } else { Ok(roots) }
}

fn authorities(file: &PathBuf) -> Result<RootCertStore, TrustError> {
    let fault = |wrong: String| TrustError::File { file: file.display().to_string(), wrong };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|error| fault(format!("cannot be read: {error}")))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| fault(format!("cannot be read: {error}")))?;
        roots.add(certificate).map_err(|error| fault(format!("has no authority: {error}")))?;
    }
    if roots.is_empty() { Err(fault("has no certificate".to_owned())) } else { Ok(roots) }
}

/// Believes everybody who has the key of the certificate that it shows, whoever made that.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
