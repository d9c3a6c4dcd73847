//! PEM files: certificates, authorities and keys.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::TlsError;

/// The certificates of a file, in its order; at least one.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = |wrong: String| TlsError::Certificates { file: file.display().to_string(), wrong };
    let read = CertificateDer::pem_file_iter(file)
        .map_err(|error| fault(format!("cannot be read: {error}")))?;
    let certificates: Result<Vec<_>, _> = read.collect();
    let certificates = certificates.map_err(|error| fault(format!("cannot be read: {error}")))?;
    if certificates.is_empty() {
        return Err(fault("has no certificate".to_owned()));
    }
    Ok(certificates)
}

/// The authorities of a file.
pub(crate) fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| TlsError::Certificates {
            file: file.display().to_string(),
            wrong: format!("has no authority: {error}"),
        })?;
    }
    Ok(roots)
}

/// The private key of a file.
pub(crate) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| TlsError::Key {
        file: file.display().to_string(),
        wrong: format!("has no key that can be read: {error}"),
    })
}
